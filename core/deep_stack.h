/*
 * The outer part of a stack that is deeper than its samples' copies.
 *
 * It is read from the living stack while its thread runs on, and believed only where this can't
 * have made a mixture. A debug register counts the thread's writes to one word: the return address
 * of a frame that a sample was found in. Then the outer part is read. A later sample that has that
 * frame too, the word not having been written in between, is of the same call: had the thread left
 * it and come back, the call instruction would have written the word anew. So that frame's callers
 * were the same all the time, and are what was read. (A word that the kernel writes, as it does for
 * a signal's handler, is no use: that is not counted.)
 *
 * A write costs the thread some 10 us, in a virtual machine. A watch that was broken is followed by
 * a rest, so long that this stays below a hundredth of the time; so are watches that are of no use.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_DEEP_STACK_H
#define SELFSAMPLE_CORE_DEEP_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "arena.h"

struct deep_stack {
    int watch;            /* descriptor; -1: nothing is known */
    uint64_t slot;        /* address of the word */
    uint64_t fp;          /* the frame pointer in the first of `ips` */
    uint64_t since_ns;    /* from when on it tells of samples (CLOCK_MONOTONIC) */
    uint64_t unbroken_ns; /* no write was seen up to then */
    uint64_t rests_ns;    /* until then it is not watched again */
    uint64_t *ips;        /* the callers of the frame that returns by `slot`, innermost first */
    uint32_t count, room;
    uint32_t useless; /* watches, one after the other, that no sample was found under */
    bool was_used;    /* one was under this */
};

/* Are writes counted here? Not every hypervisor passes debug registers on. */
bool deep_stack_is_possible(void);

/* One that knows nothing. Keeps the memory of the one that was there. */
void deep_stack_reset(struct deep_stack *deep);

/* May it be watched, at NOW_NS? */
bool deep_stack_is_rested(const struct deep_stack *deep, uint64_t now_ns);

/* Begins to watch SLOT, for writes of thread TID. 0 or -errno; then nothing is known. */
int deep_stack_watch(struct deep_stack *deep, pid_t tid, uint64_t slot);

/* Notes the callers, read since deep_stack_watch and by now. ARENA keeps them. 0, or -ENOMEM, and
 * nothing is known. */
int deep_stack_know(struct deep_stack *deep, const uint64_t *ips, size_t count,
                    struct arena *arena);

/* Are the callers those of a sample of TIME_NS that has the frame? */
bool deep_stack_holds(struct deep_stack *deep, uint64_t time_ns);

/* Ends a watch that was broken: its thread should not pay for it. False: it was. */
bool deep_stack_look(struct deep_stack *deep);

/* Ends the watch. */
void deep_stack_end(struct deep_stack *deep);

#endif
