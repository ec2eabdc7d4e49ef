/*
 * The library's life, for the calls of the program: what it may do now, and how a session begins.
 */
#ifndef SELFSAMPLE_PRELOAD_INIT_H
#define SELFSAMPLE_PRELOAD_INIT_H

#include "../core/session.h"

enum library_state {
    LIBRARY_TOO_EARLY, /* the constructor has not run */
    LIBRARY_STAYS_OUT, /* this program is not to be profiled */
    LIBRARY_READY,
};

extern enum library_state library_state;

/* Loads what sessions need, the first time, and starts one. 0 or -errno. May change errno. */
int library_start_session(void);

/* In a forked child: labels and locks are those of its one thread now. */
void api_forked(void);

/* The calls of the program take turns. 0, -EDEADLK where this thread is in one already, or
 * -ETIMEDOUT after longer than any of them takes. */
int api_lock(void);
void api_unlock(void);

#endif
