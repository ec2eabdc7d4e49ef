/* The books of threads. Runs in the helper; never waits for a thread. */
#include "accounts.h"

#include "engine.h"
#include "sys.h"
#include "thread_clock.h"

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

void accounts_init(struct accounts *accounts, struct collector *collector,
                   struct first_clock *first_clock)
{
    *accounts = (struct accounts){.collector = collector,
                                  .first_clock = first_clock,
                                  .ends_booked_ns = sys_clock_ns(CLOCK_MONOTONIC)};
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
static uint64_t before_exec_ns(const struct accounts *accounts, const struct thread *thread,
                               uint64_t clock_ns)
{
    uint64_t late_ns = thread->dead ? 0 : accounts->late_ns;
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

void accounts_bring_up(struct accounts *accounts, struct thread *thread, bool is_last)
{
    uint64_t count_ns;
    struct thread_times times;
    if (!thread->settled || thread->event.fd < 0)
        return;
    bool is_clear = read_times(accounts->collector, thread, &times);
    if (event_read_count(&thread->event, &count_ns) != 0)
        return;
    if (is_clear)
        book_switches(accounts->collector, thread, &times, count_ns);
    account_settled_to(accounts->collector, thread, before_exec_ns(accounts, thread, count_ns),
                       is_last);
}

void accounts_look_at_switches(const struct accounts *accounts, struct thread *thread,
                               uint64_t now_ns)
{
    uint64_t count_ns;
    struct thread_times times;
    struct collector *collector = accounts->collector;
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
static uint64_t cpu_ns_of(const struct accounts *accounts, const struct thread *thread)
{
    uint64_t cpu_ns = first_clock_ns(accounts->first_clock, thread->tid);
    if (cpu_ns == 0 && !accounts->collector->exec_seen)
        cpu_ns = thread_read_cpu_ns(threads_proc_pid(&accounts->collector->threads), thread->tid);
    return before_exec_ns(accounts, thread, cpu_ns);
}

/*
 * A thread that is not settled at the end of all, though it may have lived for long: we were kept
 * from running. Its clock tells what it has used; what its ring had no room for was lost, and the
 * kernel had no occasion to say so.
 */
static void account_unsettled(struct accounts *accounts, struct thread *thread)
{
    struct collector *collector = accounts->collector;
    if (thread->settled || thread->end_cpu_ns != 0 || collector->paused ||
        engine_was_spared(&thread->event))
        return;
    thread->end_cpu_ns = cpu_ns_of(accounts, thread);
    uint64_t seen_ns = thread->birth_cpu_ns + thread_used_ns(thread);
    uint64_t missing_ns = thread->end_cpu_ns > seen_ns ? thread->end_cpu_ns - seen_ns : 0;
    if (missing_ns > LOST_PERIODS * collector->threads.plan.period_ns)
        collector->lost += missing_ns / collector->threads.plan.period_ns;
}

/* Of a thread that has ended, settled or not. */
static void close_one(struct accounts *accounts, struct thread *thread)
{
    struct collector *collector = accounts->collector;
    uint64_t shortest_ns = (thread->one_in > 1 ? SHARED_PERIODS : ACCOUNTS_BALANCED_PERIODS) *
                           thread->birth_nominal_ns;
    accounts_bring_up(accounts, thread, true);
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
static uint64_t account_first(struct accounts *accounts, struct thread *thread,
                              const struct event *replacement, uint64_t deaf_ns)
{
    struct collector *collector = accounts->collector;
    uint64_t cpu_ns = cpu_ns_of(accounts, thread), counted_ns = 0;
    event_read_count(replacement, &counted_ns);
    cpu_ns = cpu_ns > counted_ns ? cpu_ns - counted_ns : 0;
    if (thread->event.mapping != NULL)
        account_first_event(collector, thread, cpu_ns + deaf_ns);
    else if (!thread->is_old && !thread->unbalanced && thread->passed_over)
        thread->owed_ns = own_part_ns(thread, cpu_ns);
    else if (!thread->is_old && !thread->unbalanced && cpu_ns > thread->birth_cpu_ns)
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

uint64_t accounts_before_replacement(struct accounts *accounts, struct thread *thread,
                                     const struct event *replacement, uint64_t since_ns,
                                     uint64_t deaf_ns)
{
    if (thread->event.mapping != NULL)
        collector_drain_thread(accounts->collector, thread, since_ns);
    if (thread->settled)
        return account_again(accounts->collector, thread, replacement, deaf_ns);
    return account_first(accounts, thread, replacement, deaf_ns);
}

/* Its end is in the process's clock, unless that stands still for a pause. */
static void note_end(struct accounts *accounts, const struct thread *thread)
{
    if (!accounts->collector->paused)
        thread_ends_note(&accounts->ends, thread);
}

void accounts_close(struct accounts *accounts, struct thread *thread)
{
    close_one(accounts, thread);
    note_end(accounts, thread);
}

void accounts_pass_pause(struct accounts *accounts, struct thread *thread)
{
    struct thread_times times;
    const struct threads *threads = &accounts->collector->threads;
    thread_stolen_ns(threads, thread, thread->count_ns, UINT64_MAX);
    if (thread_times_read(threads, thread, &times))
        thread_switched_ns(thread, &times, thread->count_ns, 0);
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
    return thread->owed_ns + (cpu_ns > shown_ns ? cpu_ns - shown_ns : 0) + THREAD_CLOCK_LATE_NS;
}

/* UNSHOWN_NS is not missing, though no account shows it. */
static void book_ends(struct accounts *accounts, uint64_t app_cpu_ns, uint64_t unshown_ns)
{
    struct collector *collector = accounts->collector;
    uint64_t shown_ns = collector->profile.weight_ns + collector->threads.own_ns + unshown_ns;
    if (app_cpu_ns > shown_ns)
        thread_ends_book(&accounts->ends, &collector->stacks, app_cpu_ns - shown_ns,
                         collector->threads.plan.period_ns);
}

void accounts_book_ends(struct accounts *accounts, uint64_t app_cpu_ns)
{
    struct collector *collector = accounts->collector;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC), unshown_ns = 0;
    if (collector->paused || now_ns - accounts->ends_booked_ns < ENDS_BOOKED_NS)
        return;
    accounts->ends_booked_ns = now_ns;
    for (uint32_t i = 0; i < collector->threads.used && thread_ends_are_many(&accounts->ends); i++)
        if (threads_at(&collector->threads, i)->tid != 0)
            unshown_ns += pending_ns(collector, threads_at(&collector->threads, i));
    book_ends(accounts, app_cpu_ns, unshown_ns);
}

void accounts_close_all(struct accounts *accounts, uint64_t app_cpu_ns, uint64_t late_ns)
{
    struct threads *threads = &accounts->collector->threads;
    accounts->late_ns = late_ns;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0)
            continue;
        account_unsettled(accounts, thread);
        close_one(accounts, thread);
        thread_count_uncovered(threads, thread);
        if (thread->dead)
            note_end(accounts, thread);
    }
    book_ends(accounts, app_cpu_ns, 0);
}
