/*
 * What is done to threads between drains: unknown ones are found, those that live on are settled,
 * rings are refitted, and the books of those that end are closed.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_HOUSEKEEPING_H
#define SELFSAMPLE_CORE_HOUSEKEEPING_H

#include <stdbool.h>
#include <stdint.h>

#include "accounts.h"
#include "collector.h"

struct housekeeping {
    struct collector *collector;
    const struct mailbox *mailbox; /* of the turn */
    bool settling_refused;         /* the helper may not open events on this process's threads */
    pid_t own_tid;                 /* the helper's, which may be among the process's threads */
    uint64_t scanned_ns;           /* when the process's threads were last listed */
    uint32_t scans;
    uint32_t turns;
    struct accounts accounts;
};

/* FIRST_CLOCK outlives HOUSE. */
void housekeeping_init(struct housekeeping *house, struct collector *collector,
                       struct first_clock *first_clock);

/* All of it, as far as it is due. MAILBOX tells whether threads are about to come by themselves. */
void housekeeping_do(struct housekeeping *house, const struct mailbox *mailbox);

/*
 * EVENT of SHAPE, opened on THREAD at SINCE_NS of the monotonic clock and counting since, takes the
 * place of the one it has: that one's books are closed up to the points that EVENT makes records
 * of, and its ring is gone.
 */
void housekeeping_replace(struct housekeeping *house, struct thread *thread, struct event *event,
                          const struct event_shape *shape, uint64_t since_ns);

/*
 * Pausing: every thread's books are closed up to now, and its event makes no more samples once it
 * is settled; those of younger events come and are passed over. Threads are looked after as ever.
 * Resuming: what was used meanwhile is in no account.
 */
void housekeeping_pause(struct housekeeping *house);
void housekeeping_resume(struct housekeeping *house);

#endif
