/*
 * What comes out of a session: the file, the report to the `selfsample` command, the lines for the
 * user.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_PUBLISH_H
#define SELFSAMPLE_CORE_PUBLISH_H

#include <stdint.h>

#include "arena.h"
#include "collector.h"
#include "kernel_symbols.h"
#include "outfile.h"
#include "series.h"
#include "session.h"
#include "status.h"
#include "teller.h"

struct publisher {
    struct session *session;
    struct collector *collector;
    struct arena arena;     /* of the names of one writing, and of the file's buffer */
    struct outfile *out;    /* once the first writing began */
    struct outfile *places; /* beside it; NULL: inlined functions are not asked for */
    bool is_series;         /* each file has what is new since the one before */
    struct series series;
    uint64_t profile_began_ns;    /* since 1970 */
    uint64_t began_ns;            /* likewise: what the next file tells of */
    bool out_is_kept;             /* the next writing replaces its file: no %n in the name, or it
                                     is the only one that may still be had */
    struct kernel_symbols kernel; /* may be got ready while the app runs */
    struct status status;
    uint64_t told_ns; /* when the status was last brought up to date */
    uint64_t look_ns; /* when the last look was taken */
    struct teller teller;
};

/* Opens the way to the command, if there is one, and tells it that this process has begun. */
void publisher_init(struct publisher *publisher, struct session *session,
                    struct collector *collector);

/*
 * Writes the profile so far, in place of what was written before, or beside it where %n is in the
 * name; with checkpoints as well the files are a series, and only what is new is written.
 * APP_CPU_NS: the process's CPU time. 0, -ENODATA where there is nothing to write yet, or the
 * -errno of the writing.
 */
int publisher_checkpoint(struct publisher *publisher, uint64_t app_cpu_ns);

/* The same into a file of its own at PATH; "" is publisher_checkpoint. */
int publisher_snapshot(struct publisher *publisher, const char *path, uint64_t app_cpu_ns);

/* Tells by the status file that a signal's snapshot was taken, with this RESULT. */
void publisher_answer(struct publisher *publisher, uint32_t snapshots, int result);

/* Takes the look number LOOKS: the profile so far, in a memory file that the status file tells of.
 */
void publisher_look(struct publisher *publisher, uint32_t looks, uint64_t app_cpu_ns);

/* Once a turn: brings the status file up to date once a second, and lets go of a look that was
 * taken some time ago. */
void publisher_keep_told(struct publisher *publisher);

/* Tells there whether sampling is paused. */
void publisher_tell_pause(struct publisher *publisher, bool paused);

/*
 * Before the helper gives up rights: whether files can be made where the profile goes is asked of
 * its DIRECTORY (OUTPATH_BYTES); if they can't be, an empty one is made now under its name; kernel
 * symbols are opened.
 */
void publisher_directory(const struct publisher *publisher, char *directory);
void publisher_reserve(struct publisher *publisher);
void publisher_hold_kernel_symbols(struct publisher *publisher);

/* Writes the whole profile and the report. A process that used less CPU time than a period leaves
 * no file: there is nothing in it to see. */
void publisher_finish(struct publisher *publisher, uint64_t app_cpu_ns);

/* Gives its memory back. */
void publisher_close(struct publisher *publisher);

/* There will be no profile: tells why. Nothing is left to do then. */
void publisher_fail(struct publisher *publisher, int error);

/* The same for a helper that takes too long, at any moment: nothing half-written is left. CONTEXT
 * is the publisher. */
void publisher_give_up(void *context);

#endif
