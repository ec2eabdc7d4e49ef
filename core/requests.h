/*
 * What others ask of a helper that is a thread of the app. A signal to it would be one to the app's
 * process, so they write into a file without a name, its descriptor 1, which others of its user
 * open as /proc/TID/fd/1. Nothing wakes it: it looks there once a turn, which is every 50 ms at
 * the least.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_REQUESTS_H
#define SELFSAMPLE_CORE_REQUESTS_H

#include <stdint.h>

#include "helper.h"

#define REQUESTS_FD   1
#define REQUESTS_NAME "selfsample-requests" /* as in the link /proc/TID/fd/1: /memfd:NAME */

/* The file's whole content. Who asks changes it under flock(2). */
struct requests_asked {
    uint32_t snapshots, looks; /* how many, so far */
    uint32_t pause;            /* the lowest bit: 1 pauses, 0 resumes; the others count */
};

struct requests {
    int fd; /* -1: there are none */
    struct requests_asked taken;
};

/* Opens the file, where HELPER is a thread. Where it can't be had, nobody can ask. */
void requests_open(struct requests *requests, const struct helper *helper);

/* Hands what has been asked since the last call over to HELPER, as its signals would. What is not a
 * whole file asks for nothing. */
void requests_take(struct requests *requests, struct helper *helper);

#endif
