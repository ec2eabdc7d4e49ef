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
 * nominal period (in quarters), its birth's if that is longer: by then it has been sampled,
 * whatever its first period is. */
#define SETTLE_AGE_NS   2000000u
#define SETTLE_QUARTERS 5u

/* A thread of the app's making comes to our hook before it has used this. */
#define COMES_BEFORE_NS 500000u

/* A thread of this many periods is long enough for its weights to be balanced at its end: with
 * fewer, what is random about them is needed to be right on the average. */
#define BALANCED_PERIODS 3u

/* So many of a thinned birth's own periods stand for those of others. */
#define SHARED_PERIODS 8u

/* More than this unseen at the end of a thread's first event, and samples were lost. */
#define LOST_PERIODS 8u

/* Two counts are of one moment if they were read this close together; how often that is tried. */
#define READS_APART_NS 50000u
#define READS_MAX      4u

/* Between bookings of what ends of threads took. */
#define ENDS_BOOKED_NS 1000000000u

/* Between looks at what switches take of a thread. */
#define SWITCHES_ASKED_NS 250000000u

/* Clocks that are read from outside may be a tick behind. */
#define CLOCK_LATE_NS 10000000u

/* Between tries to settle a thread: locked memory or descriptors may have come free. */
#define RETRY_NS 100000000u

/* Larger copies that need not wait for that; from the first to the largest it is one or two. */
#define GROWTHS_SOON 2u

void housekeeping_init(struct housekeeping *house, struct collector *collector,
                       struct first_clock *first_clock)
{
    *house = (struct housekeeping){.collector = collector,
                                   .first_clock = first_clock,
                                   .ends_booked_ns = sys_clock_ns(CLOCK_MONOTONIC),
                                   .own_tid = (pid_t)sys0(SYS_gettid),
                                   .scanned_ns = sys_clock_ns(CLOCK_MONOTONIC)};
}

/* What THREAD has used since its last sample, and up to COUNT_NS of its event, goes where that
 * sample went; what it turns out not to have used is taken off there. IS_LAST: no more samples of
 * this event will come, so what has made none, where the kernel makes none of its own time, is the
 * kernel's. */
static void account_settled_to(struct collector *collector, struct thread *thread,
                               uint64_t count_ns, bool is_last)
{
    if (count_ns < thread->count_ns ||
        (thread->last_node == PROFILE_NONE && !collector->paused && !is_last))
        return;
    uint64_t more_ns = count_ns - thread->count_ns;
    /* After an exec /proc shows others under these numbers. */
    uint64_t stolen_ns = collector->exec_seen
                             ? 0
                             : thread_stolen_ns(&collector->threads, thread, count_ns, UINT64_MAX);
    thread->count_ns = count_ns;
    if (collector->paused)
        return;
    uint64_t rest_ns = more_ns > stolen_ns ? more_ns - stolen_ns : 0;
    if (is_last)
        rest_ns = kernel_time_take_last(&collector->kernel, thread, rest_ns);
    if (thread->last_node == PROFILE_NONE)
        return;
    if (more_ns >= stolen_ns)
        profile_top_up(&collector->profile, thread->last_node, rest_ns);
    else
        profile_take_back(&collector->profile, thread->last_node, stolen_ns - more_ns);
}

/* CLOCK_NS of THREAD's, less what may be the next program's. */
static uint64_t before_exec_ns(const struct housekeeping *house, const struct thread *thread,
                               uint64_t clock_ns)
{
    uint64_t late_ns = thread->dead ? 0 : house->late_ns;
    return clock_ns > late_ns ? clock_ns - late_ns : 0;
}

/* What THREAD's event does not count. TIMES are of just before it had counted COUNT_NS. */
static void book_switches(struct collector *collector, struct thread *thread,
                          const struct thread_times *times, uint64_t count_ns)
{
    uint64_t ns = thread_switched_ns(thread, times, count_ns, collector->threads.plan.period_ns);
    if (ns == 0)
        return;
    stack_frames_book(&collector->stacks, thread, "[thread switch]", ns);
    collector->threads.switched_ns += ns;
}

/* After an exec /proc shows others under these numbers. */
static bool read_times(const struct collector *collector, const struct thread *thread,
                       struct thread_times *times)
{
    return !collector->exec_seen && !collector->paused &&
           thread_times_read(&collector->threads, thread, times);
}

static void account_settled(struct housekeeping *house, struct thread *thread, bool is_last)
{
    uint64_t count_ns;
    struct thread_times times;
    if (!thread->settled || thread->event.fd < 0)
        return;
    bool is_clear = read_times(house->collector, thread, &times);
    if (event_read_count(&thread->event, &count_ns) != 0)
        return;
    if (is_clear)
        book_switches(house->collector, thread, &times, count_ns);
    account_settled_to(house->collector, thread, before_exec_ns(house, thread, count_ns), is_last);
}

/* Of a thread that lives on, now and then; it may be killed. One that made no sample has used
 * nothing, unless it can be in the kernel unseen. Asking an event for its count interrupts its
 * thread. */
static void look_at_switches(const struct housekeeping *house, struct thread *thread,
                             uint64_t now_ns)
{
    uint64_t count_ns;
    struct thread_times times;
    struct collector *collector = house->collector;
    if (!thread->settled || thread->event.fd < 0 ||
        now_ns - thread->switches_asked_ns < SWITCHES_ASKED_NS ||
        (thread->switches_count_ns == thread->count_ns && !collector->kernel.is_unseen))
        return;
    thread->switches_asked_ns = now_ns;
    thread->switches_count_ns = thread->count_ns;
    if (read_times(collector, thread, &times) &&
        thread_may_have_switched(thread, &times, collector->threads.plan.period_ns) &&
        event_read_count(&thread->event, &count_ns) == 0)
        book_switches(collector, thread, &times, count_ns);
}

/* From here on a thinned birth's life is its own, and stands for no others: one whose sampling made
 * it long would count that many times. Those that were passed over are asked for the same part. */
static uint64_t own_part_ns(const struct thread *thread, uint64_t cpu_ns)
{
    uint64_t shared_ns = SHARED_PERIODS * thread->birth_nominal_ns;
    return thread->one_in > 1 && cpu_ns > shared_ns ? cpu_ns - shared_ns : 0;
}

/* What THREAD, which has used CPU_NS, stands for, with what is not placed yet of others' long
 * lives. */
static uint64_t stands_for_ns(struct collector *collector, const struct thread *thread,
                              uint64_t cpu_ns)
{
    uint64_t beyond_ns = own_part_ns(thread, cpu_ns) * (thread->one_in - 1);
    uint64_t others_ns = beyond_ns < collector->unplaced_ns ? beyond_ns : collector->unplaced_ns;
    collector->unplaced_ns -= others_ns;
    return cpu_ns * thread->one_in - beyond_ns + others_ns;
}

/* Or takes them off there. */
static void place(struct profile *profile, uint32_t node, uint64_t ns, bool is_more)
{
    if (is_more)
        profile_top_up(profile, node, ns);
    else
        profile_take_back(profile, node, ns);
}

/*
 * What a first event's samples weigh is only right on the average of many threads. Where the
 * thread's clock is known, and its life is long enough that none goes without a sample, the
 * difference goes to the last of them, and a part to the kernel where that made no samples. CPU_NS:
 * by its clock, 0 where that is not known.
 */
static void account_birth(struct collector *collector, const struct thread *thread, uint64_t cpu_ns)
{
    if (thread->settled || thread->plain || thread->unbalanced ||
        engine_was_spared(&thread->event) || thread->last_node == PROFILE_NONE || cpu_ns == 0)
        return;
    cpu_ns = cpu_ns > thread->birth_cpu_ns ? cpu_ns - thread->birth_cpu_ns : 0;
    if (cpu_ns < thread_used_ns(thread))
        cpu_ns = thread_used_ns(thread);
    uint64_t stands_ns = stands_for_ns(collector, thread, cpu_ns);
    uint64_t weighed_ns = thread->weight_ns * thread->one_in;
    bool is_more = stands_ns > weighed_ns;
    uint64_t ns = is_more ? stands_ns - weighed_ns : weighed_ns - stands_ns;
    uint64_t kernel_ns = kernel_time_part_ns(thread, ns);
    if (kernel_ns != 0)
        place(&collector->profile, thread->kernel_node, kernel_ns, is_more);
    place(&collector->profile, kernel_ns != 0 ? thread->seen_node : thread->last_node,
          ns - kernel_ns, is_more);
}

/* By the clock that is read from outside, which may be a tick late, or by one that is not. 0 where
 * neither tells. */
static uint64_t cpu_ns_of(const struct housekeeping *house, const struct thread *thread)
{
    uint64_t cpu_ns = first_clock_ns(house->first_clock, thread->tid);
    if (cpu_ns == 0 && !house->collector->exec_seen)
        cpu_ns = thread_read_cpu_ns(threads_proc_pid(&house->collector->threads), thread->tid);
    return before_exec_ns(house, thread, cpu_ns);
}

/*
 * A thread that is not settled at the end of all, though it may have lived for long: we were kept
 * from running. Its clock tells what it has used; what its ring had no room for was lost, and the
 * kernel had no occasion to say so.
 */
static void account_unsettled(struct housekeeping *house, struct thread *thread)
{
    struct collector *collector = house->collector;
    if (thread->settled || thread->end_cpu_ns != 0 || collector->paused ||
        engine_was_spared(&thread->event))
        return;
    thread->end_cpu_ns = cpu_ns_of(house, thread);
    uint64_t seen_ns = thread->birth_cpu_ns + thread_used_ns(thread);
    uint64_t missing_ns = thread->end_cpu_ns > seen_ns ? thread->end_cpu_ns - seen_ns : 0;
    if (missing_ns > LOST_PERIODS * collector->threads.plan.period_ns)
        collector->lost += missing_ns / collector->threads.plan.period_ns;
}

/* Of a thread that has ended, settled or not. */
static void account_close(struct housekeeping *house, struct thread *thread)
{
    struct collector *collector = house->collector;
    uint64_t shortest_ns =
        (thread->one_in > 1 ? SHARED_PERIODS : BALANCED_PERIODS) * thread->birth_nominal_ns;
    account_settled(house, thread, true);
    if (thread->passed_over && !thread->settled && !thread->unbalanced)
        collector->unplaced_ns += own_part_ns(thread, thread->end_cpu_ns);
    uint64_t end_ns = thread->birth_cpu_ns + thread_used_ns(thread);
    if (end_ns < thread->end_cpu_ns)
        end_ns = thread->end_cpu_ns;
    kernel_time_to_end(&collector->kernel, thread, end_ns - thread->birth_cpu_ns);
    if (end_ns >= thread->birth_cpu_ns + shortest_ns)
        account_birth(collector, thread, end_ns);
}

/* A thread whose first event ends, at CPU_NS by its clock. */
static void account_first_event(struct collector *collector, struct thread *thread, uint64_t cpu_ns)
{
    if (cpu_ns > thread->birth_cpu_ns)
        kernel_time_to_end(&collector->kernel, thread, cpu_ns - thread->birth_cpu_ns);
    account_birth(collector, thread, cpu_ns);
}

/* A thread that had an event of its own, or none. REPLACEMENT counts already, and up to DEAF_NS the
 * old one goes on; returns the thread's CPU clock at the moment it began to, which is not before
 * the last sample. */
static uint64_t account_first(struct housekeeping *house, struct thread *thread,
                              const struct event *replacement, uint64_t deaf_ns)
{
    struct collector *collector = house->collector;
    uint64_t cpu_ns = cpu_ns_of(house, thread), counted_ns = 0;
    event_read_count(replacement, &counted_ns);
    cpu_ns = cpu_ns > counted_ns ? cpu_ns - counted_ns : 0;
    /* One that the first scan finds may be as old as the process. */
    bool is_new = !thread->scanned || !collector->threads.plan.had_threads || house->scans > 1;
    if (thread->event.mapping != NULL)
        account_first_event(collector, thread, cpu_ns + deaf_ns);
    else if (is_new && !thread->unbalanced && thread->passed_over)
        thread->owed_ns = own_part_ns(thread, cpu_ns);
    else if (is_new && !thread->unbalanced && cpu_ns > thread->birth_cpu_ns)
        thread->owed_ns = cpu_ns - thread->birth_cpu_ns;
    thread_refresh_name(threads_proc_pid(&collector->threads), thread);
    uint64_t sampled_ns = thread->birth_cpu_ns + thread_used_ns(thread);
    if (thread->event.mapping != NULL && cpu_ns != 0 && cpu_ns + deaf_ns < sampled_ns)
        cpu_ns = sampled_ns - deaf_ns;
    return cpu_ns;
}

/* A settled thread whose event is replaced: both count for a while, and we may be kept from running
 * in between, so the new one's count beyond DEAF_NS is taken off. */
static uint64_t account_again(struct collector *collector, struct thread *thread,
                              const struct event *replacement, uint64_t deaf_ns)
{
    uint64_t before_ns, old_ns, after_ns;
    for (unsigned i = 0; i < READS_MAX; i++) {
        if (event_read_count(replacement, &before_ns) != 0 ||
            event_read_count(&thread->event, &old_ns) != 0 ||
            event_read_count(replacement, &after_ns) != 0)
            return 0;
        if (after_ns - before_ns < READS_APART_NS)
            break;
    }
    if (old_ns + deaf_ns > before_ns)
        account_settled_to(collector, thread, old_ns + deaf_ns - before_ns, true);
    uint64_t cpu_ns = thread->base_cpu_ns + thread_used_ns(thread) + thread->switched_ns;
    return cpu_ns > deaf_ns ? cpu_ns - deaf_ns : 0;
}

/* The samples of THREAD's event up to SINCE_NS are taken, and its books brought up to the moment at
 * which REPLACEMENT had counted DEAF_NS. Returns the thread's CPU clock when it began to. */
static uint64_t account_before_replacement(struct housekeeping *house, struct thread *thread,
                                           const struct event *replacement, uint64_t since_ns,
                                           uint64_t deaf_ns)
{
    if (thread->event.mapping != NULL)
        collector_drain_thread(house->collector, thread, since_ns);
    if (thread->settled)
        return account_again(house->collector, thread, replacement, deaf_ns);
    return account_first(house, thread, replacement, deaf_ns);
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
    if (result != 0)
        return;
    uint64_t deaf_ns = deaf_periods_ns(house, thread, &event, shape.period_ns, &since_ns);
    thread->dead |= event_has_ended(&event);
    uint64_t base_cpu_ns = account_before_replacement(house, thread, &event, since_ns, deaf_ns);
    thread->growths += thread->settled && thread->wants_more_stack;
    thread_replace(&house->collector->threads, thread, &event, &shape, base_cpu_ns);
    thread->count_ns = deaf_ns;
    if (thread->tid == house->first_clock->tid)
        first_clock_close(house->first_clock);
    thread->fitted_ns = since_ns;
    if (house->collector->paused)
        thread_silence(thread);
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
        if (thread != NULL)
            thread->unbalanced = scan->house->collector->paused;
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

/* Would an event of the helper's suit THREAD better than what it has? */
static bool wants_event(const struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    const struct collector *collector = house->collector;
    bool is_cut = thread->settled && thread->wants_more_stack && !thread->refused &&
                  thread->growths < GROWTHS_SOON;
    if ((now_ns < thread->retry_ns && !is_cut) || !thread_is_misfit(&collector->threads, thread))
        return false;
    if (thread->settled)
        return true;
    if (thread->event.mapping == NULL && !thread->passed_over)
        return !thread->scanned || is_unknown(house, thread, now_ns);
    bool is_seen = thread->sampled || thread->passed_over || collector->kernel.is_unseen;
    if (now_ns - thread->seen_ns < SETTLE_AGE_NS || !is_seen)
        return false;
    uint64_t period_ns = collector->threads.plan.period_ns;
    if (period_ns < thread->birth_nominal_ns)
        period_ns = thread->birth_nominal_ns;
    uint64_t aim_ns = thread->birth_cpu_ns + period_ns * SETTLE_QUARTERS / 4;
    return has_used(collector, thread, aim_ns, now_ns);
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

/* Its end is in the process's clock, unless that stands still for a pause. */
static void note_end(struct housekeeping *house, const struct thread *thread)
{
    if (!house->collector->paused)
        thread_ends_note(&house->ends, thread);
}

static void look_after(struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    /* Whatever it does now may be as deep. */
    if (!deep_stack_look(&thread->deep) && deep_stack_is_rested(&thread->deep, now_ns))
        collector->unwinder.watch_wanted = true;
    if (thread->dead) {
        account_close(house, thread);
        note_end(house, thread);
        label_release(house, thread);
        threads_retire(&collector->threads, thread);
    } else if (wants_event(house, thread, now_ns)) {
        settle(house, thread);
    } else if (!collector->paused) {
        look_at_switches(house, thread, now_ns);
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
        account_settled(house, thread, false);
        thread_silence(thread);
        deep_stack_end(&thread->deep);
        thread->unbalanced |= !thread->settled;
    }
    house->collector->paused = true;
}

void housekeeping_resume(struct housekeeping *house)
{
    struct threads *threads = &house->collector->threads;
    struct thread_times times;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0)
            continue;
        thread_unsilence(threads, thread);
        if (!thread->settled)
            continue;
        thread_stolen_ns(threads, thread, thread->count_ns, UINT64_MAX);
        if (thread_times_read(threads, thread, &times))
            thread_switched_ns(thread, &times, thread->count_ns, 0);
    }
    house->collector->paused = false;
}

/* The most that THREAD, which lives, has used and no account shows yet. */
static uint64_t pending_ns(const struct collector *collector, const struct thread *thread)
{
    uint64_t count_ns, cpu_ns;
    if (thread->settled && thread->event.fd >= 0 &&
        event_read_count(&thread->event, &count_ns) == 0)
        return thread->owed_ns + (count_ns > thread->count_ns ? count_ns - thread->count_ns : 0);
    cpu_ns = thread_read_cpu_ns(threads_proc_pid(&collector->threads), thread->tid);
    uint64_t shown_ns = thread->base_cpu_ns + thread_used_ns(thread);
    return thread->owed_ns + (cpu_ns > shown_ns ? cpu_ns - shown_ns : 0) + CLOCK_LATE_NS;
}

/* UNSHOWN_NS is not missing, though no account shows it. */
static void book_ends(struct housekeeping *house, uint64_t app_cpu_ns, uint64_t unshown_ns)
{
    struct collector *collector = house->collector;
    uint64_t shown_ns = collector->profile.weight_ns + collector->threads.own_ns + unshown_ns;
    if (app_cpu_ns > shown_ns)
        thread_ends_book(&house->ends, &collector->stacks, app_cpu_ns - shown_ns,
                         collector->threads.plan.period_ns);
}

void housekeeping_book_ends(struct housekeeping *house, uint64_t app_cpu_ns)
{
    struct collector *collector = house->collector;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC), unshown_ns = 0;
    if (collector->paused || now_ns - house->ends_booked_ns < ENDS_BOOKED_NS)
        return;
    house->ends_booked_ns = now_ns;
    for (uint32_t i = 0; i < collector->threads.used && thread_ends_are_many(&house->ends); i++)
        if (threads_at(&collector->threads, i)->tid != 0)
            unshown_ns += pending_ns(collector, threads_at(&collector->threads, i));
    book_ends(house, app_cpu_ns, unshown_ns);
}

void housekeeping_close_accounts(struct housekeeping *house, uint64_t app_cpu_ns, uint64_t late_ns)
{
    struct threads *threads = &house->collector->threads;
    house->late_ns = late_ns;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0)
            continue;
        account_unsettled(house, thread);
        account_close(house, thread);
        thread_count_uncovered(threads, thread);
        if (thread->dead)
            note_end(house, thread);
    }
    book_ends(house, app_cpu_ns, 0);
}
