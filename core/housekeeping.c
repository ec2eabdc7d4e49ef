/* Looks after the threads that are profiled. Runs in the helper; never waits for a thread. */
#include "housekeeping.h"

#include <errno.h>

#include "proc_tasks.h"
#include "sys.h"

/* Between scans of the process's threads; and where a record told of an unknown one. */
#define SCAN_NS      1000000000u
#define SCAN_SOON_NS 5000000u

/* A scan may miss a thread that was not there yet when it began. */
#define SCAN_GRACE_NS 1000000000u

/* A thread that lives this long is worth an event of the helper's. */
#define SETTLE_AGE_NS 2000000u

/* A thread of this many periods is long enough for its weights to be balanced at its end: with
 * fewer, what is random about them is needed to be right on the average. */
#define BALANCED_PERIODS 3u

/* Between tries to settle a thread: locked memory or descriptors may have come free. */
#define RETRY_NS 100000000u

void housekeeping_init(struct housekeeping *house, struct collector *collector)
{
    *house =
        (struct housekeeping){.collector = collector, .scanned_ns = sys_clock_ns(CLOCK_MONOTONIC)};
}

/* What THREAD has used since its last sample goes where that sample went. */
static void account_settled(struct profile *profile, struct thread *thread)
{
    uint64_t count_ns;
    if (!thread->settled || thread->event.fd < 0 || thread->last_node == PROFILE_NONE ||
        event_read_count(&thread->event, &count_ns) != 0 || count_ns <= thread->count_ns)
        return;
    profile_top_up(profile, thread->last_node, count_ns - thread->count_ns);
    thread->count_ns = count_ns;
}

/*
 * What a first event's samples weigh is only right on the average of many threads. Where the
 * thread's clock is known, and its life is long enough that none goes without a sample, the
 * difference goes to the last of them. CPU_NS: by its clock, 0 where that is not known.
 */
static void account_birth(struct profile *profile, const struct thread *thread, uint64_t cpu_ns)
{
    if (thread->settled || thread->plain || thread->last_node == PROFILE_NONE || cpu_ns == 0)
        return;
    cpu_ns = cpu_ns > thread->birth_cpu_ns ? cpu_ns - thread->birth_cpu_ns : 0;
    if (cpu_ns < thread->count_ns)
        cpu_ns = thread->count_ns;
    if (cpu_ns > thread->weight_ns)
        profile_top_up(profile, thread->last_node, cpu_ns - thread->weight_ns);
    else
        profile_take_back(profile, thread->last_node, thread->weight_ns - cpu_ns);
}

/* Of a thread that has ended, settled or not. */
static void account_close(struct collector *collector, struct thread *thread)
{
    uint64_t shortest_ns = BALANCED_PERIODS * collector->threads.plan.period_ns;
    account_settled(&collector->profile, thread);
    if (thread->end_cpu_ns >= thread->birth_cpu_ns + shortest_ns)
        account_birth(&collector->profile, thread, thread->end_cpu_ns);
}

/* The first event's samples up to now are taken before a new one replaces it. A thread that had
 * none, and was made since we are here, owes the time until now to its next sample. */
static void account_first(struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    pid_t pid = collector->threads.plan.app_pid;
    uint64_t cpu_ns = thread_read_cpu_ns(pid, thread->tid);
    /* One that the first scan finds may be as old as the process. */
    bool is_new = !thread->scanned || !collector->threads.plan.had_threads || house->scans > 1;
    if (thread->event.mapping != NULL) {
        collector_drain_thread(collector, thread, now_ns);
        account_birth(&collector->profile, thread, cpu_ns);
    } else if (is_new && cpu_ns > thread->birth_cpu_ns) {
        thread->owed_ns = cpu_ns - thread->birth_cpu_ns;
    }
    thread_refresh_name(pid, thread);
}

static void account_before_replacement(struct housekeeping *house, struct thread *thread)
{
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (!thread->settled) {
        account_first(house, thread, now_ns);
        return;
    }
    collector_drain_thread(house->collector, thread, now_ns);
    account_settled(&house->collector->profile, thread);
}

static void settle(struct housekeeping *house, struct thread *thread)
{
    struct event event;
    struct event_shape shape;
    int result = thread_open_settled(&house->collector->threads, thread, &event, &shape);
    thread->refused = result != 0 && result != -ESRCH;
    thread->retry_ns = sys_clock_ns(CLOCK_MONOTONIC) + RETRY_NS;
    thread->dead |= result == -ESRCH;
    house->settling_refused |= result == -EACCES;
    if (result != 0)
        return;
    event_enable(&event);
    account_before_replacement(house, thread);
    thread_replace(thread, &event, &shape);
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
    struct thread *thread = threads_find(threads, tid);
    if (thread == NULL)
        thread = threads_admit_scanned(threads, tid, scan->now_ns);
    if (thread != NULL)
        thread->scan = scan->house->scans;
}

/* Threads that a complete scan did not see have ended, and the record of it was lost. */
static void scan_conclude(const struct scan *scan)
{
    struct threads *threads = &scan->house->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = &threads->list[i];
        if (thread->tid != 0 && thread->scan != scan->house->scans &&
            scan->now_ns - thread->seen_ns > SCAN_GRACE_NS)
            thread->dead = true;
    }
}

/* Unknown threads: soon where a record told of one, else now and then. A thread that has a slot
 * reserved is about to come by itself, and gets some time for that. */
static void scan_if_due(struct housekeeping *house, const struct mailbox *mailbox, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    uint64_t since_ns = now_ns - house->scanned_ns;
    if (since_ns < (collector->scan_wanted ? SCAN_SOON_NS : SCAN_NS))
        return;
    if (since_ns < SCAN_NS && mailbox_has_reserved(mailbox))
        return;
    collector->scan_wanted = false;
    house->scanned_ns = now_ns;
    house->scans++;
    struct scan scan = {house, now_ns};
    if (proc_tasks_read(collector->threads.plan.app_pid, scan_thread, &scan) == 0)
        scan_conclude(&scan);
}

static void look_after(struct housekeeping *house, struct thread *thread, uint64_t now_ns)
{
    struct collector *collector = house->collector;
    if (thread->dead) {
        account_close(collector, thread);
        threads_retire(&collector->threads, thread);
    } else if (now_ns >= thread->retry_ns &&
               (thread->scanned || now_ns - thread->seen_ns >= SETTLE_AGE_NS) &&
               thread_is_misfit(&collector->threads, thread)) {
        settle(house, thread);
    } else {
        thread_redraw_period(&collector->threads, thread);
    }
}

void housekeeping_do(struct housekeeping *house, const struct mailbox *mailbox)
{
    struct collector *collector = house->collector;
    struct threads *threads = &collector->threads;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    scan_if_due(house, mailbox, now_ns);
    if (collector->maps_wanted)
        modules_scan(&collector->modules);
    collector->maps_wanted = false;
    for (uint32_t i = 0; i < threads->used && !collector->exec_seen; i++) {
        if (threads->list[i].tid == 0)
            continue;
        look_after(house, &threads->list[i], now_ns);
        collector_pause(collector);
    }
}

void housekeeping_close_accounts(struct housekeeping *house)
{
    struct threads *threads = &house->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        struct thread *thread = &threads->list[i];
        if (thread->tid == 0)
            continue;
        account_close(house->collector, thread);
        if (thread->event.mapping == NULL)
            threads->uncovered++;
    }
}
