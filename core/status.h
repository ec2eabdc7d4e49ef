/*
 * What a helper says about itself to whoever may look: a few lines of text in a file without a
 * name, its descriptor 0, which others of its user read as /proc/PID/fd/0.
 *
 *     serial N
 *     app N                 the process that is profiled
 *     paused yes|no         what is in force
 *     snapshots N           how many have been asked for by signal and answered
 *     error TEXT            of the last of them; nothing where it was written
 *     file PATH             the last file that was written; nothing where there is none
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
#define STATUS_BYTES 8192u

struct status {
    int fd; /* -1: there can be none */
    uint64_t serial;
    pid_t app_pid;
    bool paused;
    uint32_t snapshots;
    char error[128];
    char file[4096];
};

/* Opens the file and writes a first text. Where it can't be had, nothing is told. */
void status_open(struct status *status, pid_t app_pid);

/* Writes what STATUS holds. */
void status_write(struct status *status);

#endif
