/*
 * Holding the helper still while a thread of the app forks.
 *
 * A fork copies the memory as it is at that moment. What the helper holds a lock of, or is half-way
 * through changing, would be copied so, for ever: the child's helper would wait for a lock that
 * nobody holds. So the helper says when it is at such work, and a thread that is about to fork
 * waits, but not for long, until it is not.
 *
 * Neither side can starve the other. The helper works in turns. A thread counts itself among those
 * that the next turn to begin will wait for, and waits for the turn that has begun already, if one
 * has. There are two such counters, one for every other turn.
 *
 * quiet_ask and quiet_release run in the forking thread, quiet_is_asked anywhere, quiet_is_sure in
 * the child, quiet_begin, quiet_end and quiet_yield in the helper. Any number of threads may fork
 * at once.
 */
#ifndef SELFSAMPLE_CORE_QUIET_H
#define SELFSAMPLE_CORE_QUIET_H

#include <stdbool.h>
#include <stdint.h>

struct quiet {
    uint32_t turn;       /* the helper's; odd from quiet_begin to quiet_end; futex */
    uint32_t forking[2]; /* threads between ask and release, that a turn waits for; futexes */
    uint32_t at_work;    /* the helper has done waiting */
    uint32_t gave_up;    /* it once went on although a fork was under way */
    uint32_t life;       /* raised by quiet_reset: what was asked before is void */
};

/* What a fork takes with it from quiet_ask to quiet_release, or into the child. */
struct quiet_fork {
    uint32_t slot;      /* in forking[] */
    uint32_t life;      /* the struct quiet's */
    bool is_counted;    /* false, as in a zeroed struct: nothing was asked */
    bool waited_enough; /* the helper did not get done in time */
};

/* Waits at most LIMIT_NS until the helper is not at work. */
struct quiet_fork quiet_ask(struct quiet *quiet, uint64_t limit_ns);
void quiet_release(struct quiet *quiet, struct quiet_fork fork);

/* Is some thread between the two? */
bool quiet_is_asked(const struct quiet *quiet);

/* In the child, of its copy: begins anew. A fork that was under way in the parent's thread (one in
 * a signal handler within another) goes on in the child, and may be released there. */
void quiet_reset(struct quiet *copy);

/* In the child, of its copy: is nothing in it half-done? */
bool quiet_is_sure(const struct quiet *copy, struct quiet_fork fork);

/* How long the helper waits for forks under way, which may never end: a forking thread may be
 * killed. */
struct quiet_patience {
    uint64_t limit_ns;
    bool (*is_over)(const void *context); /* asked now and then: nobody is left to wait for */
    const void *context;
};

/*
 * Begins work that a fork must not copy, after the forks under way. When the patience is over it
 * goes on all the same; the child of such a fork sees that its copy is not sure.
 */
void quiet_begin(struct quiet *quiet, const struct quiet_patience *patience);
void quiet_end(struct quiet *quiet);

/* In the app, of a helper that has ended: its work, if it was killed at any, holds no fork up. */
void quiet_resign(struct quiet *quiet);

/* In the midst of such work, where nothing is half-done: lets the forks go that wait. */
void quiet_yield(struct quiet *quiet, const struct quiet_patience *patience);

#endif
