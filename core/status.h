/*
 * What a helper says about itself to whoever may look: a few lines of text in a file without a
 * name, its descriptor 0, which others of its user read as /proc/PID/fd/0.
 *
 *     serial N
 *     app N                 the process that is profiled
 *     program NAME
 *     engine NAME
 *     format folded|pprof   of its files; looks are always folded
 *     unit samples|us       of the counts in what is folded
 *     rate N                samples per second of CPU time
 *     roots N               frames in front of a stack that are no functions
 *     out PATH              the file that the profile will go to, as far as it is free by then
 *     out_is_had yes|no     it is this helper's already
 *     samples N             so far; this and cpu_ns are as of a second ago at the most
 *     cpu_ns N              what they weigh
 *     paused yes|no         what is in force
 *     snapshots N           how many have been asked for by signal and answered
 *     error TEXT            of the last of them; nothing where it was written
 *     file PATH             the last file that was written; nothing where there is none
 *     looks N               how many have been asked for (HELPER_VALUE_LOOK) and answered
 *     look N                the helper's descriptor of the last one's text, a memory file that is
 *                           named LOOK_NAME; -1: it could not be written, or nobody has asked for
 *                           one for some time
 *     look_error TEXT       why it could not
 *     end N                 the serial once more: a text whose two differ was read half-written
 *
 * Control characters in values become `_`.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_STATUS_H
#define SELFSAMPLE_CORE_STATUS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define STATUS_FD    0
#define STATUS_NAME  "selfsample-helper" /* as in the link /proc/PID/fd/0: /memfd:NAME */
#define STATUS_BYTES 16384u
#define LOOK_NAME    "selfsample-look"

struct status {
    int fd; /* -1: there can be none */
    uint64_t serial;
    pid_t app_pid;
    const char *program, *engine, *format, *unit;
    uint64_t rate_hz;
    uint32_t roots;
    uint64_t samples, cpu_ns;
    bool paused;
    uint32_t snapshots;
    char error[128];
    char file[4096];
    char out[4096];
    bool out_is_had;
    uint32_t looks;
    int look_fd;
    char look_error[128];
};

/* Opens the file. Where it can't be had, nothing is told. */
void status_open(struct status *status, pid_t app_pid);

/* Writes what STATUS holds; strings that are NULL count as empty. */
void status_write(struct status *status);

#endif
