/*
 * The parts of `selfsample live`, which shows what a running process spends its time on. The
 * helper is asked for looks (core/status.h), each a profile in a memory file; the table of one
 * look, or of what came between two, is made in a child, so that its memory goes with it.
 *
 *     command_live (looks, keys, signals) -> live_table (looks -> text) -> live_screen (text)
 */
#ifndef SELFSAMPLE_SCRIPTS_LIVE_H
#define SELFSAMPLE_SCRIPTS_LIVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "helpers.h"
#include "views.h"

/* The profile of one moment. */
struct look {
    int fd; /* of its folded text; -1: there was no sample yet */
    uint64_t cpu_ns, samples;
    uint64_t at_ns; /* by the monotonic clock */
};

/* ---- live_screen.c: the terminal ---- */

struct screen {
    bool is_terminal; /* else tables are printed one after another */
    bool has_keys;    /* stdin is one as well */
    bool is_entered;
    size_t rows, columns;
    struct termios before;
};

/* What stdout and stdin are. */
void screen_open(struct screen *screen);

/* Takes the terminal, and gives it back as it was; the end of the process does the latter too. */
void screen_enter(struct screen *screen);
void screen_leave(struct screen *screen);

/* Asks how large it is. */
void screen_measure(struct screen *screen);

/* Shows TEXT, as much of it as there is room for, in place of what was there. */
void screen_paint(const struct screen *screen, const char *text);

/* ---- live_table.c: what a look says ---- */

struct live_table {
    const struct helper_words *words;
    struct view_options options;
    pid_t pid;
    const struct look *before; /* only what came after it; NULL: all */
    const struct look *now;
    const char *keys; /* a line that tells which there are; NULL: none */
    size_t columns;   /* 0: as table_width finds */
};

/* The text, to be freed. */
char *live_table_text(const struct live_table *table);

#endif
