/*
 * What is done to threads between drains: unknown ones are found, those that live on are settled,
 * rings are refitted, and the books of those that end are closed, so that the weights of a thread's
 * samples sum up to its clock.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_HOUSEKEEPING_H
#define SELFSAMPLE_CORE_HOUSEKEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "collector.h"
#include "first_clock.h"
#include "thread_ends.h"

struct housekeeping {
    struct collector *collector;
    const struct mailbox *mailbox; /* of the turn */
    struct first_clock *first_clock;
    bool settling_refused; /* the helper may not open events on this process's threads */
    pid_t own_tid;         /* the helper's, which may be among the process's threads */
    uint64_t scanned_ns;   /* when the process's threads were last listed */
    uint32_t scans;
    uint32_t turns;
    struct thread_ends ends;
    uint64_t ends_booked_ns; /* when they last were */
    uint64_t late_ns;        /* see housekeeping_close_accounts */
};

/* FIRST_CLOCK outlives HOUSE. */
void housekeeping_init(struct housekeeping *house, struct collector *collector,
                       struct first_clock *first_clock);

/* All of it, as far as it is due. MAILBOX tells whether threads are about to come by themselves. */
void housekeeping_do(struct housekeeping *house, const struct mailbox *mailbox);

/*
 * Pausing: every thread's books are closed up to now, and its event makes no more samples once it
 * is settled; those of younger events come and are passed over. Threads are looked after as ever.
 * Resuming: what was used meanwhile is in no account.
 */
void housekeeping_pause(struct housekeeping *house);
void housekeeping_resume(struct housekeeping *house);

/* Books once a second what ends of threads took by the process's clock, which stands at APP_CPU_NS,
 * as far as that can't be what threads that live have used and no account shows yet. */
void housekeeping_book_ends(struct housekeeping *house, uint64_t app_cpu_ns);

/* Brings every thread's weights up to its clock, and all of them up to the process's as far as ends
 * of threads explain what is missing: once, after the last drain. LATE_NS: an exec was so long ago;
 * clocks of threads that live have the next program's time as well, which is no more than that. */
void housekeeping_close_accounts(struct housekeeping *house, uint64_t app_cpu_ns, uint64_t late_ns);

#endif
