/*
 * The books of threads: so that the weights of a thread's samples sum up to its clock, and those of
 * all threads to the process's.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_ACCOUNTS_H
#define SELFSAMPLE_CORE_ACCOUNTS_H

#include <stdbool.h>
#include <stdint.h>

#include "collector.h"
#include "first_clock.h"
#include "thread_ends.h"

/* A thread of this many periods of its birth's is long enough for its weights to be balanced at its
 * end: with fewer, what is random about them is needed to be right on the average. */
#define ACCOUNTS_BALANCED_PERIODS 3u

struct accounts {
    struct collector *collector;
    struct first_clock *first_clock;
    struct thread_ends ends;
    uint64_t ends_booked_ns; /* when they last were */
    uint64_t late_ns;        /* see accounts_close_all */
};

/* COLLECTOR and FIRST_CLOCK outlive ACCOUNTS. */
void accounts_init(struct accounts *accounts, struct collector *collector,
                   struct first_clock *first_clock);

/* What THREAD has used since its last sample goes where that went, if its event is settled.
 * IS_LAST: no more samples of this event will come. */
void accounts_bring_up(struct accounts *accounts, struct thread *thread, bool is_last);

/*
 * What THREAD's event does not count as it is switched to, now and then: it lives on, and may be
 * killed. One that made no sample has used nothing, unless it can be in the kernel unseen. Asking
 * an event for its count interrupts its thread.
 */
void accounts_look_at_switches(const struct accounts *accounts, struct thread *thread,
                               uint64_t now_ns);

/* What a settled THREAD has used in a pause, which is over, is in no account. */
void accounts_pass_pause(struct accounts *accounts, struct thread *thread);

/*
 * The samples of THREAD's event up to SINCE_NS are taken, and its books brought up to the moment at
 * which REPLACEMENT, which counts already, had counted DEAF_NS. Returns the thread's CPU clock when
 * it began to.
 */
uint64_t accounts_before_replacement(struct accounts *accounts, struct thread *thread,
                                     const struct event *replacement, uint64_t since_ns,
                                     uint64_t deaf_ns);

/* THREAD has ended. */
void accounts_close(struct accounts *accounts, struct thread *thread);

/* Books once a second what ends of threads took by the process's clock, which stands at APP_CPU_NS,
 * as far as that can't be what threads that live have used and no account shows yet. */
void accounts_book_ends(struct accounts *accounts, uint64_t app_cpu_ns);

/* Brings every thread's weights up to its clock, and all of them up to the process's as far as ends
 * of threads explain what is missing: once, after the last drain. LATE_NS: an exec was so long ago;
 * clocks of threads that live have the next program's time as well, which is no more than that. */
void accounts_close_all(struct accounts *accounts, uint64_t app_cpu_ns, uint64_t late_ns);

#endif
