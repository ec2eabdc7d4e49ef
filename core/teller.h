/*
 * What is told of a session: reports to the `selfsample` command, and lines for the user, who reads
 * them on the app's stderr.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_TELLER_H
#define SELFSAMPLE_CORE_TELLER_H

#include <stdbool.h>
#include <stdint.h>

#include "collector.h"
#include "session.h"

struct teller {
    struct session *session;
    const struct collector *collector;
    int report_fd;            /* FIFO to the command; -1: none */
    bool kernel_hidden;       /* see frame_names.h; set by whoever writes names */
    char engine[256];         /* what takes the samples, and what is less than usual about it */
    char kernel_refusal[128]; /* why there are no kernel frames, and what would help */
};

void teller_init(struct teller *teller, struct session *session, const struct collector *collector);

/* Opens the way to the command, if there is one, and tells it that this process has begun. */
void teller_begin(struct teller *teller);

/* Tells the command of FILE of a series, where that goes into one line. */
void teller_part(const struct teller *teller, const char *file);

/* What the user is to know of the places that belong beside PROFILE, which is whole without them.
 */
void teller_places_error(struct teller *teller, const char *profile, int error);

/* How it ended. */
struct teller_end {
    uint64_t app_cpu_ns; /* the process's CPU time; 0: not known */
    const char *file;    /* the last that was written; "": none */
    int error;           /* of the last writing, -errno; -ENODATA: there was nothing to write */
    bool too_short;      /* which is why */
};

/* The summary and all notices: once, at the end. */
void teller_end(struct teller *teller, const struct teller_end *end);

/* There will be no profile. */
void teller_fail(struct teller *teller, int error);

#endif
