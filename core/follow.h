/*
 * Keeps the helper from being a way around what the app has given up: it takes the credentials that
 * the app takes, having made ready what it will need, and notices when the app enters seccomp.
 *
 * The app asks after the calls that the preload hooks, and waits. Calls made in other ways are
 * noticed when the helper looks by itself, every 50 ms at the most. What counts is the first thread
 * of the process; libc keeps the others like it.
 *
 * Thread safety: one task at a time per struct follower; the helper.
 */
#ifndef SELFSAMPLE_CORE_FOLLOW_H
#define SELFSAMPLE_CORE_FOLLOW_H

#include "housekeeping.h"
#include "publish.h"
#include "session.h"
#include "task_status.h"

struct follower {
    struct session *session;
    struct publisher *publisher;
    struct housekeeping *house;
    int status_fd; /* of the app; -1: it can't be told what it is */
    uint64_t looked_ns;
    pid_t app_pid;            /* as /proc calls it */
    struct task_status taken; /* what the helper acts as */
    struct task_status seen;
    char text[TASK_STATUS_BYTES];
};

/* Before the helper sets its own seccomp filter: what both have from the start is as nothing. */
void follower_init(struct follower *follower, struct publisher *publisher,
                   struct housekeeping *house);

/* Looks, if it is time to, if the app waits for that, or AT_ONCE; and lets the app go on. To be
 * called where rings may be changed. */
void follower_look(struct follower *follower, bool at_once);

#endif
