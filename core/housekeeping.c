/* Looks after the threads that are profiled. Runs in the helper; never waits for a thread. */
#include "housekeeping.h"

#include <errno.h>

#include "engine.h"
#include "proc_tasks.h"
#include "sys.h"
#include "thread_clock.h"

/* Between scans of the process's threads; where no record tells of new ones; and where one did. */
#define SCAN_NS        1000000000u
#define SCAN_UNTOLD_NS 100000000u
#define SCAN_SOON_NS   5000000u

/* A scan may miss a thread that was not there yet when it began. */
#define SCAN_GRACE_NS 1000000000u

/* A thread that lives this long is worth an event of the helper's, once it has used this part of a
 * nominal period (in quarters): by then it has been sampled, whatever its first period is. */
#define SETTLE_AGE_NS   2000000u
#define SETTLE_QUARTERS 5u

/* A thread of the app's making comes to our hook before it has used this. */
#define COMES_BEFORE_NS 500000u

/* Between tries to settle a thread: locked memory or descriptors may have come free. */
#define RETRY_NS 100000000u

/* Larger copies that need not wait for that; from the first to the largest it is one or two. */
#define GROWTHS_SOON 2u

void housekeeping_init(struct housekeeping *house, struct collector *collector,
                       struct first_clock *first_clock)
{
    *house = (struct housekeeping){.collector = collector,
                                   .own_tid = (pid_t)sys0(SYS_gettid),
                                   .scanned_ns = sys_clock_ns(CLOCK_MONOTONIC)};
    accounts_init(&house->accounts, collector, first_clock);
}

/*
 * The whole periods that REPLACEMENT, just opened on THREAD, has counted before it had its ring:
 * mapping one may take a ms, and points without a ring make no records. Where that would say that
 * they were in the kernel, the old event speaks for them, and *SINCE_NS becomes the time of their
 * end; where kernel samples are made, the next sample does.
 */
static uint64_t deaf_periods_ns(const struct housekeeping *house, const struct thread *thread,
                                const struct event *replacement, uint64_t period_ns,
                                uint64_t *since_ns)
{
    uint64_t count_ns;
    if (!house->collector->kernel.is_unseen || thread->event.mapping == NULL ||
        event_read_count(replacement, &count_ns) != 0)
        return 0;
    uint64_t begun_ns = count_ns % period_ns;
    *since_ns = sys_clock_ns(CLOCK_MONOTONIC) - begun_ns;
    return count_ns - begun_ns;
}

void housekeeping_replace(struct housekeeping *house, struct thread *thread, struct event *event,
                          const struct event_shape *shape, uint64_t since_ns)
{
    uint64_t deaf_ns = deaf_periods_ns(house, thread, event, shape->period_ns, &since_ns);
    thread->dead |= event_has_ended(event);
    uint64_t base_cpu_ns =
        accounts_before_replacement(&house->accounts, thread, event, since_ns, deaf_ns);
    thread->growths += thread->settled && thread->wants_more_stack;
    thread_replace(&house->collector->threads, thread, event, shape, base_cpu_ns);
    thread->count_ns = deaf_ns;
    if (thread->tid == house->accounts.first_clock->tid)
        first_clock_close(house->accounts.first_clock);
    thread->fitted_ns = since_ns;
    if (house->collector->paused)
        thread_silence(thread);
}

static void settle(struct housekeeping *house, struct thread *thread)
{
    struct event event;
    struct event_shape shape;
    uint64_t since_ns = sys_clock_ns(CLOCK_MONOTONIC);
    int result = thread_open_settled(&house->collector->threads, thread, &event, &shape);
    thread->refused = result != 0 && result != -ESRCH;
    thread->retry_ns = sys_clock_ns(CLOCK_MONOTONIC) + RETRY_NS;
    thread->dead |= result == -ESRCH;
    house->settling_refused |= result == -EACCES;
    if (thread->refused && thread->event.mapping == NULL &&
        house->collector->threads.plan.timers != NULL)
        timers_ask(house->collector->threads.plan.timers, thread->tid);
    if (result == 0)
        housekeeping_replace(house, thread, &event, &shape, since_ns);
}

/* A scan of the process's threads, and when it is made. */
struct scan {
    struct housekeeping *house;
    uint64_t now_ns;
};

/* Admits the thread if it is unknown. */
static void scan_thread(void *context, pid_t tid)
{
    const struct scan *scan = context;
    struct threads *threads = &scan->house->collector->threads;
    if (tid == scan->house->own_tid)
        return;
    struct thread *thread = threads_find_ending(threads, tid);
    if (thread == NULL && !threads_has_left(threads, tid)) {
        thread = threads_admit_scanned(threads, tid, scan->now_ns);
        if (thread != NULL) {
            thread->unbalanced = scan->house->collector->paused;
            thread->is_old = threads->plan.had_threads && scan->house->scans == 1;
        }
    }
    if (thread != NULL)
        thread->scan = scan->house->scans;
}

/* Threads that a complete scan did not see have ended, and the record of it was lost. */
static void scan_conclude(const struct scan *scan)
{
    struct threads *threads = &scan->house->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid != 0 && thread->scan != scan->house->scans &&
            scan->now_ns - thread->seen_ns > SCAN_GRACE_NS)
            thread->dead = true;
    }
}

/* Threads that set a label and ended before they were known have not given their entries back. */
static void labels_sweep(struct collector *collector)
{
    struct labels *labels = collector->labels;
    if (labels == NULL)
        return;
    for (uint32_t i = 0; i < LABEL_ENTRIES && i < labels->used; i++) {
        uint64_t owner = label_owner(labels, i);
        pid_t tid = label_owner_tid(owner);
        if (tid > 0 && threads_find_ending(&collector->threads, tid) == NULL &&
            !thread_exists(threads_proc_pid(&collector->threads), tid))
            label_entry_free(labels, i, owner);
    }
}

/* Unknown threads: soon where a record told of one, else now and then. A thread that has a slot
 * reserved is about to come by itself, and gets some time for that. */
static void scan_if_due(struct housekeeping *house, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    uint64_t since_ns = now_ns - house->scanned_ns;
    uint64_t scan_ns = collector->threads.plan.traits->by_timer ? SCAN_UNTOLD_NS : SCAN_NS;
    if (since_ns < (collector->scan_wanted ? SCAN_SOON_NS : scan_ns))
        return;
    if (since_ns < scan_ns && mailbox_has_reserved(house->mailbox))
        return;
    collector->scan_wanted = false;
    house->scanned_ns = now_ns;
    house->scans++;
    struct scan scan = {house, now_ns};
    if (proc_tasks_read(threads_proc_pid(&collector->threads), scan_thread, &scan) == 0)
        scan_conclude(&scan);
    labels_sweep(collector);
}

/* Has a thread by now used AIM_NS, or can't that be known? Until it can have, its clock is not
 * asked again. */
static bool has_used(const struct collector *collector, struct thread *thread, uint64_t aim_ns,
                     uint64_t now_ns)
{
    uint64_t cpu_ns = thread_read_cpu_ns(threads_proc_pid(&collector->threads), thread->tid);
    if (cpu_ns < aim_ns && cpu_ns != 0)
        thread->retry_ns = now_ns + (aim_ns - cpu_ns);
    return cpu_ns >= aim_ns || (cpu_ns == 0 && !thread->scanned);
}

/* A thread that a scan found may be one that has yet to come to our hook: that is soon after it
 * has begun to run. Or it has come, with an event whose samples are not read yet. */
static bool is_unknown(const struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    if (mailbox_has_reserved(house->mailbox) &&
        !has_used(house->collector, thread, COMES_BEFORE_NS, now_ns))
        return false;
    return !mailbox_has_birth_of(house->mailbox, thread->tid);
}

/*
 * What a thread has to use before it is settled. Births with a longer period than the nominal one
 * wait until their books would be balanced without: a fast draw's interrupts make its thread's life
 * longer, so more of these would be settled, and be balanced, than of the others of lives as short.
 * Unless the first event's copies don't do.
 */
static uint64_t settling_ns(const struct collector *collector, const struct thread *thread)
{
    uint64_t period_ns = collector->threads.plan.period_ns;
    if (thread->birth_nominal_ns <= period_ns)
        return period_ns * SETTLE_QUARTERS / 4;
    return thread->wants_more_stack ? thread->birth_nominal_ns * SETTLE_QUARTERS / 4
                                    : thread->birth_nominal_ns * ACCOUNTS_BALANCED_PERIODS;
}

/* Would an event of the helper's suit THREAD better than what it has? */
static bool wants_event(const struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    const struct collector *collector = house->collector;
    bool is_cut = thread->wants_more_stack && !thread->refused && thread->growths < GROWTHS_SOON;
    if ((now_ns < thread->retry_ns && !is_cut) || !thread_is_misfit(&collector->threads, thread))
        return false;
    if (thread->settled)
        return true;
    if (thread->event.mapping == NULL && !thread->passed_over)
        return !thread->scanned || is_unknown(house, thread, now_ns);
    bool is_seen = thread->sampled || thread->passed_over || collector->kernel.is_unseen;
    if (now_ns - thread->seen_ns < SETTLE_AGE_NS || !is_seen)
        return false;
    return has_used(collector, thread, thread->birth_cpu_ns + settling_ns(collector, thread),
                    now_ns);
}

/* Gives back what THREAD, which has ended, had among the labels. The next of its number, which
 * posts its birth before it can set a label, has given that back already. */
static void label_release(const struct housekeeping *house, const struct thread *thread)
{
    struct collector *collector = house->collector;
    uint32_t entry =
        collector->labels != NULL ? label_entry_of(collector->labels, thread->tid) : LABEL_NO_ENTRY;
    if (entry == LABEL_NO_ENTRY)
        return;
    uint64_t owner = label_owner(collector->labels, entry);
    if (label_owner_tid(owner) == thread->tid &&
        threads_find(&collector->threads, thread->tid) == NULL &&
        !mailbox_has_birth_of(house->mailbox, thread->tid))
        label_entry_free(collector->labels, entry, owner);
}

static void look_after(struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    /* Whatever it does now may be as deep. */
    if (!deep_stack_look(&thread->deep) && deep_stack_is_rested(&thread->deep, now_ns))
        collector->unwinder.watch_wanted = true;
    if (thread->dead) {
        accounts_close(&house->accounts, thread);
        label_release(house, thread);
        threads_retire(&collector->threads, thread);
    } else if (wants_event(house, thread, now_ns)) {
        settle(house, thread);
    } else if (!collector->paused) {
        accounts_look_at_switches(&house->accounts, thread, now_ns);
        thread_redraw_period(&collector->threads, thread);
    }
}

void housekeeping_do(struct housekeeping *house, const struct mailbox *mailbox)
{
    struct collector *collector = house->collector;
    struct threads *threads = &collector->threads;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    house->mailbox = mailbox;
    /* Not in the first turn: a process of 1 ms does without. */
    if (house->turns++ > 0)
        collector_read_maps(collector);
    threads_note_idle(threads);
    for (uint32_t i = 0; i < threads->used && !collector->exec_seen; i++) {
        if (threads_at(threads, i)->tid == 0)
            continue;
        look_after(house, threads_at(threads, i), now_ns);
        collector_pause(collector);
    }
    /* Last: who is found to have ended is retired in the next turn, when its last word is read. */
    if (!collector->exec_seen)
        scan_if_due(house, now_ns);
}

void housekeeping_pause(struct housekeeping *house)
{
    struct threads *threads = &house->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0)
            continue;
        accounts_bring_up(&house->accounts, thread, false);
        thread_silence(thread);
        deep_stack_end(&thread->deep);
        thread->unbalanced |= !thread->settled;
    }
    house->collector->paused = true;
}

void housekeeping_resume(struct housekeeping *house)
{
    struct threads *threads = &house->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0)
            continue;
        thread_unsilence(threads, thread);
        if (thread->settled)
            accounts_pass_pause(&house->accounts, thread);
    }
    house->collector->paused = false;
}
