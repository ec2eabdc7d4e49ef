/*
 * Sampling by timers, where perf events can't be had: each thread has a POSIX timer on its own CPU
 * clock, whose signal interrupts it; the handler puts a sample into a ring of the thread's, in the
 * form in which the kernel would have done it (ring_writer.h).
 *
 * The kernel looks at such timers at its ticks only, so there are CONFIG_HZ samples a second at the
 * most. That costs no CPU time in the sum: a sample says how much its thread has used by then.
 *
 * A slot goes FREE -> TAKEN (a thread makes it ready for itself or another) -> ACTIVE <-> BUSY (the
 * thread is in the handler, or at its end) -> FREE (by the helper, once the thread is gone; where
 * somebody has it in TAKEN or BUSY, CLOSING comes between, and that one frees it). Whoever has it
 * in TAKEN or BUSY owns all its other fields, and its ring stays; in ACTIVE the ring's reading side
 * is the helper's. A slot keeps its ring for the next thread.
 *
 * All but timer_slot_release runs in the app's threads. No libc, no allocation but mmap, no lock;
 * errno stays as it is.
 */
#ifndef SELFSAMPLE_CORE_TIMERS_H
#define SELFSAMPLE_CORE_TIMERS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "kernel_sigaction.h"
#include "ring_writer.h"
#include "small_stacks.h"

#define TIMERS_SLOTS      16384u /* as many as there may be threads */
#define TIMERS_BLOCK      128u   /* of these are mapped at a time */
#define TIMERS_ASKED      16u
#define TIMERS_CLOCK(tid) ((clockid_t)(~(unsigned)(tid) << 3 | 6)) /* clock_getcpuclockid(3) */
#define TIMERS_NAME_BYTES 16u

struct timer_slot {
    uint32_t state; /* generation and state, see timers.c; atomic */
    uint32_t index;
    bool has_timer;
    int32_t timer; /* the kernel's number */
    int signal;    /* that it sends */
    struct ring_writer writer;
    void *mapping; /* the ring; NULL: none yet */
    size_t mapping_bytes;
    uint32_t stack_bytes; /* copied with a sample, at most */
    uint64_t period_ns;   /* nominal */
    uint64_t tick_ns;
    uint64_t random;
    uint64_t base_cpu_ns;         /* the thread's CPU clock when its timer began, and what it has
                                     used while it was spared */
    bool spared;                  /* it has no room for our signal, and gets none */
    bool was_spared;              /* ever; atomic */
    uint64_t spared_cpu_ns;       /* its CPU clock when that began */
    char name[TIMERS_NAME_BYTES]; /* the thread's, as last told */
};

struct timers {
    kernel_signal_handler *handler; /* set by whoever makes the struct: calls timers_on_signal */
    int signal;                     /* ours; 0: none is prepared; atomic */
    bool has_no_signal;             /* every one that would do is used by the app */
    bool has_callchain;             /* of samples in perf's rings, so that all are of one form */
    uint32_t stack_bytes;           /* as asked; 0: to be chosen */
    pid_t asked[TIMERS_ASKED];      /* threads that want a timer, 0: none; atomic */
    struct small_stacks small_stacks;
    uint32_t used;                             /* slots that were ever taken: [0, used); atomic */
    void *blocks[TIMERS_SLOTS / TIMERS_BLOCK]; /* of struct timer_slot, mapped late; NULL: no slot
                                                  of it was ever taken; atomic */
};

/* The time between two ticks of the kernel, ns, and so the shortest period. */
uint64_t timers_tick_ns(void);

/* Chooses a signal that nobody uses and installs the handler. Again: does nothing, unless the app
 * has taken that signal meanwhile. 0 or -errno: -EBUSY: every signal that would do is the app's. */
int timers_prepare(struct timers *timers);

/*
 * A slot with a ring and a timer that does not run yet, for thread TID of this process, at one
 * sample in PERIOD_NS; RANDOM decides when. NULL, and -errno in *ERROR: -EAGAIN no more timers are
 * granted (RLIMIT_SIGPENDING), -ENOMEM, -ENOSPC no slot is free.
 */
struct timer_slot *timers_open(struct timers *timers, pid_t tid, uint64_t period_ns,
                               uint64_t random, int *error);

/* Starts it: what the thread uses from now on counts. 0 or -errno: -ECANCELED: the slot has been
 * released. */
int timer_slot_arm(struct timers *timers, struct timer_slot *slot);

/*
 * What the handler does: if INFO is of a timer of ours, puts a sample of what was interrupted,
 * whose registers CONTEXT holds. False where the signal is from elsewhere.
 */
bool timers_on_signal(struct timers *timers, const siginfo_t *info, const void *context);

/*
 * In the helper, which can make no timers of the app's: asks for one for thread TID, which came to
 * no hook. In a thread of the app, in its handler: takes such a wish; 0: there is none (any more).
 */
void timers_ask(struct timers *timers, pid_t tid);
pid_t timers_take_asked(struct timers *timers);

/* The calling thread is about to end: ends its timer, and tells it in its ring. */
void timers_leave(struct timers *timers, pid_t tid);

/* The calling thread takes no signals from its timer, or takes them again. For an emulator of
 * programs, which may begin a handler that an exec then leaves without an end. */
void timers_hold(struct timers *timers, pid_t tid, bool hold);

/*
 * Thread TID has no room for our signal, as small_stacks tells already, or has room again. When it
 * returns no signal comes, or they come again. What the thread uses between is in no sample.
 */
void timers_spare(struct timers *timers, pid_t tid, bool spare);

/*
 * The app uses FROM, our signal: goes over to another, with all timers. Where there is no other, no
 * timer is left, and there will be none. The handler of that one stays.
 */
void timers_change_signal(struct timers *timers, int from);

/* The same where the app wants SIGNAL for itself: it is as it was before, and none is pending. */
void timers_give_up_signal(struct timers *timers, int signal);

/* No more signals come, or they come again: the timers of all threads. */
void timers_silence(struct timers *timers, bool silent);

/* Which life of the slot this is, for whoever has it in TAKEN. */
uint32_t timer_slot_life(const struct timer_slot *slot);

/* In the helper: has that life not ended? A thread may tell of a slot that is no longer its own,
 * where a session ended during its birth. */
bool timer_slot_is_alive(const struct timer_slot *slot, uint32_t life);

/* Has its thread ever been spared? */
bool timer_slot_was_spared(const struct timer_slot *slot);

/* In the helper: the slot, in this life, is free for another thread. Its ring must not be read any
 * more. */
void timer_slot_release(struct timer_slot *slot, uint32_t life);

/* In the child of a fork, which has neither the timers nor the rings. The handler stays. */
void timers_forget(struct timers *timers);

/* At a session's end, where the process goes on: ends all timers, and unmaps the rings of which no
 * thread is in the midst of a sample, of its birth or of its end. */
void timers_close(struct timers *timers);

#endif
