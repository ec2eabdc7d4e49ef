/* The stage between the rings and the profile. Runs in the helper; never touches the app's live
 * stack. */
#include "collector.h"

#include <errno.h>

#include "proc_tasks.h"
#include "record.h"
#include "sampling.h"
#include "sys.h"
#include "text.h"

/* Between scans of the process's threads; and where a record told of an unknown one. */
#define SCAN_NS      1000000000u
#define SCAN_SOON_NS 5000000u

/* A thread that lives this long is worth an event of the helper's. */
#define SETTLE_AGE_NS 2000000u

/* A thread of this many periods is long enough for its weights to be balanced at its end: with
 * fewer, what is random about them is needed to be right on the average. */
#define BALANCED_PERIODS 3u

/* Between tries to settle a thread: locked memory or descriptors may have come free. */
#define RETRY_NS 100000000u

/* A ring with data, by the time of its oldest record. */
struct due {
    uint64_t time_ns;
    uint32_t thread; /* index */
};

int collector_init(struct collector *collector, const struct collector_setup *setup)
{
    struct arena *arena = setup->arena;
    *collector = (struct collector){
        .arena = arena,
        .between_records = setup->between_records,
        .context = setup->context,
        .bounce = arena_alloc(arena, RECORD_BYTES_MAX),
        .due = arena_alloc_array(arena, THREADS_MAX, sizeof(struct due)),
        /* Threads may have been made before us. */
        .scan_wanted = true,
        .scanned_ns = sys_clock_ns(CLOCK_MONOTONIC),
    };
    if (collector->bounce == NULL || collector->due == NULL)
        return -ENOMEM;
    app_memory_init(&collector->memory, arena);
    modules_init(&collector->modules, arena, &collector->memory, setup->our_address);
    unwinder_init(&collector->unwinder, setup->library, &collector->modules, &collector->memory,
                  arena);
    profile_init(&collector->profile, arena);
    modules_scan(&collector->modules);
    int result = stack_builder_init(&collector->stacks, &collector->modules, &collector->unwinder,
                                    &collector->profile, setup->config->threads, arena);
    return result != 0 ? result : threads_init(&collector->threads, &setup->plan, arena);
}

static void take_post(struct collector *collector, const struct birth *birth, uint64_t now_ns)
{
    if (!birth->ended) {
        threads_admit(&collector->threads, birth, now_ns);
        return;
    }
    struct thread *thread = threads_find(&collector->threads, birth->tid);
    if (thread != NULL)
        thread->end_cpu_ns = birth->cpu_ns;
}

void collector_take_births(struct collector *collector, struct mailbox *mailbox)
{
    if (__atomic_load_n(&mailbox->unread, __ATOMIC_ACQUIRE) == 0)
        return;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    struct birth birth;
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
        if (mailbox_take(mailbox, i, &birth))
            take_post(collector, &birth, now_ns);
}

/* What a sample weighs, see sampling.h; 0: it does not count. */
static uint64_t weigh(struct collector *collector, struct thread *thread,
                      const struct record *record)
{
    uint64_t count_ns = record->sample.count_ns;
    if (record->time_ns > thread->until_ns)
        return 0;
    uint64_t weight_ns = count_ns - thread->count_ns;
    if (!thread->settled && !thread->plain)
        weight_ns = sampling_birth_weight_ns(collector->threads.plan.period_ns, thread->period_ns,
                                             count_ns, !thread->sampled);
    thread->count_ns = count_ns;
    thread->weight_ns += weight_ns;
    return weight_ns;
}

/*
 * Where kernel samples are refused, an event that fires in the kernel makes no record, and the next
 * one carries the time of both. Takes whole periods that passed so out of WEIGHT_NS and books them
 * as the kernel's.
 */
static uint64_t without_kernel_time(struct collector *collector, struct thread *thread,
                                    uint64_t weight_ns)
{
    bool sure = thread->settled && !thread->period_is_new && !thread->lost_since_sample;
    uint64_t periods = (weight_ns + thread->period_ns / 4) / thread->period_ns;
    if (collector->threads.plan.traits->kernel_frames || !sure || periods < 2)
        return weight_ns;
    uint64_t kernel_ns = (periods - 1) * thread->period_ns;
    stack_frames_book_kernel(&collector->stacks, thread, kernel_ns);
    collector->kernel_ns += kernel_ns;
    return weight_ns > kernel_ns ? weight_ns - kernel_ns : 1;
}

static void handle_sample(struct collector *collector, struct thread *thread,
                          const struct record *record)
{
    uint64_t weight_ns = without_kernel_time(collector, thread, weigh(collector, thread, record));
    thread->sampled = true;
    thread->period_is_new = thread->lost_since_sample = false;
    thread->samples_since_draw++;
    if (weight_ns == 0)
        return;
    enum unwind_end end;
    size_t count = stack_frames(&collector->stacks, thread, record, &end);
    if (end == UNWIND_ROOT)
        collector->whole++;
    else
        collector->truncated++;
    thread->wants_more_stack |= end == UNWIND_CUT;
    profile_add(&collector->profile, collector->stacks.frames, count, weight_ns,
                &thread->last_node);
}

static void rename_thread(struct thread *thread, const char *to)
{
    struct text name = text_over(thread->name, sizeof thread->name);
    text_put(&name, to);
    thread->text = UINT32_MAX;
}

static void handle_name(struct collector *collector, const struct record *record)
{
    struct thread *thread = threads_find(&collector->threads, (pid_t)record->tid);
    if (thread != NULL)
        rename_thread(thread, record->name);
}

/* What else was lost with samples: a new name, new mappings, births and ends of threads. */
static void handle_loss(struct collector *collector, struct thread *thread,
                        const struct record *record)
{
    char name[THREAD_NAME_BYTES];
    collector->lost += thread->settled ? record->lost : 0;
    collector->scan_wanted = collector->maps_wanted = thread->lost_since_sample = true;
    thread_read_name(collector->threads.plan.app_pid, thread->tid, name);
    if (name[0] != '\0')
        rename_thread(thread, name);
}

static void handle_birth(struct collector *collector, const struct record *record)
{
    if ((pid_t)record->pid == collector->threads.plan.app_pid &&
        threads_find(&collector->threads, (pid_t)record->tid) == NULL)
        collector->scan_wanted = true;
}

static void handle(struct collector *collector, struct thread *thread, const struct record *record)
{
    switch (record->kind) {
    case RECORD_SAMPLE:
        handle_sample(collector, thread, record);
        break;
    case RECORD_NAME:
        handle_name(collector, record);
        break;
    case RECORD_EXEC:
        collector->exec_seen = true;
        break;
    case RECORD_MAP:
        if ((pid_t)record->pid == collector->threads.plan.app_pid)
            modules_map(&collector->modules, record->map.start, record->map.bytes,
                        record->map.file_offset, record->map.inode, record->map.path);
        break;
    case RECORD_BIRTH:
        handle_birth(collector, record);
        break;
    case RECORD_DEATH:
        if ((pid_t)record->tid == thread->tid)
            thread->dead = true;
        break;
    case RECORD_LOST:
        handle_loss(collector, thread, record);
        break;
    case RECORD_THROTTLE:
        collector->throttled++;
        break;
    case RECORD_OTHER:
        break;
    }
}

/* Handles the oldest record of THREAD's ring. False where there is none. */
static bool handle_next(struct collector *collector, struct thread *thread)
{
    size_t bytes;
    const void *data = ring_peek(&thread->ring, &bytes, collector->bounce);
    if (data == NULL)
        return false;
    struct record record;
    if (record_decode(&record, data, bytes, collector->threads.plan.traits->kernel_frames) == 0)
        handle(collector, thread, &record);
    ring_advance(&thread->ring, bytes);
    if (collector->between_records != NULL)
        collector->between_records(collector->context);
    return true;
}

/* Moves the entry at INDEX down to its place in a heap of COUNT, the smallest time on top. */
static void due_sink(struct due *due, uint32_t count, uint32_t index)
{
    for (;;) {
        uint32_t least = index;
        for (uint32_t child = 2 * index + 1; child <= 2 * index + 2 && child < count; child++)
            if (due[child].time_ns < due[least].time_ns)
                least = child;
        if (least == index)
            return;
        struct due moved = due[index];
        due[index] = due[least];
        due[least] = moved;
        index = least;
    }
}

static uint32_t due_gather(struct collector *collector)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < collector->threads.used; i++) {
        struct thread *thread = &collector->threads.list[i];
        if (thread->tid == 0 || thread->event.mapping == NULL || !ring_has_data(&thread->ring))
            continue;
        collector->due[count++] = (struct due){ring_peek_time_ns(&thread->ring), i};
    }
    for (uint32_t i = count / 2; i-- > 0;)
        due_sink(collector->due, count, i);
    return count;
}

void collector_drain(struct collector *collector, uint64_t until_ns)
{
    struct due *due = collector->due;
    uint32_t count = due_gather(collector);
    while (count > 0 && due[0].time_ns <= until_ns && !collector->exec_seen) {
        struct thread *thread = &collector->threads.list[due[0].thread];
        handle_next(collector, thread);
        if (ring_has_data(&thread->ring))
            due[0].time_ns = ring_peek_time_ns(&thread->ring);
        else
            due[0] = due[--count];
        due_sink(due, count, 0);
    }
}

/* What THREAD has used since its last sample goes where that sample went. */
static void settle_account(struct collector *collector, struct thread *thread)
{
    uint64_t count_ns;
    if (!thread->settled || thread->event.fd < 0 || thread->last_node == PROFILE_NONE ||
        event_read_count(&thread->event, &count_ns) != 0 || count_ns <= thread->count_ns)
        return;
    profile_top_up(&collector->profile, thread->last_node, count_ns - thread->count_ns);
    thread->count_ns = count_ns;
}

/* The old event's records up to the moment the new one began to count, and no later ones. */
static void drain_until(struct collector *collector, struct thread *thread, uint64_t until_ns)
{
    thread->until_ns = until_ns;
    while (!collector->exec_seen && handle_next(collector, thread)) {
        /* The event still runs, but its ring is finite. */
        if (sys_clock_ns(CLOCK_MONOTONIC) > until_ns + 20000000)
            break;
    }
}

/*
 * What a first event's samples weigh is only right on the average of many threads. Where the
 * thread's clock is known, and its life is long enough that none goes without a sample, the
 * difference goes to the last of them. CPU_NS: by its clock, 0 where that is not known.
 */
static void balance_birth(struct collector *collector, const struct thread *thread, uint64_t cpu_ns)
{
    if (thread->settled || thread->plain || thread->last_node == PROFILE_NONE || cpu_ns == 0)
        return;
    cpu_ns = cpu_ns > thread->birth_cpu_ns ? cpu_ns - thread->birth_cpu_ns : 0;
    if (cpu_ns < thread->count_ns)
        cpu_ns = thread->count_ns;
    if (cpu_ns > thread->weight_ns)
        profile_top_up(&collector->profile, thread->last_node, cpu_ns - thread->weight_ns);
    else
        profile_take_back(&collector->profile, thread->last_node, thread->weight_ns - cpu_ns);
}

/* The same for a thread that has ended without having been settled. */
static void balance_ended(struct collector *collector, const struct thread *thread)
{
    uint64_t shortest_ns = BALANCED_PERIODS * collector->threads.plan.period_ns;
    if (thread->end_cpu_ns >= thread->birth_cpu_ns + shortest_ns)
        balance_birth(collector, thread, thread->end_cpu_ns);
}

static void settle(struct collector *collector, struct thread *thread)
{
    struct event event;
    struct event_shape shape;
    int result = thread_open_settled(&collector->threads, thread, &event, &shape);
    thread->refused = result != 0 && result != -ESRCH;
    thread->retry_ns = sys_clock_ns(CLOCK_MONOTONIC) + RETRY_NS;
    thread->dead |= result == -ESRCH;
    collector->settling_refused |= result == -EACCES;
    if (result != 0)
        return;
    event_enable(&event);
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (thread->event.mapping != NULL)
        drain_until(collector, thread, now_ns);
    if (thread->settled)
        settle_account(collector, thread);
    else if (thread->event.mapping != NULL)
        balance_birth(collector, thread,
                      thread_read_cpu_ns(collector->threads.plan.app_pid, thread->tid));
    thread_replace(thread, &event, &shape);
}

/* A scan of the process's threads, and when it is made. */
struct scan {
    struct collector *collector;
    uint64_t now_ns;
};

/* Admits the thread if it is unknown. */
static void scan_thread(void *context, pid_t tid)
{
    const struct scan *scan = context;
    struct threads *threads = &scan->collector->threads;
    struct thread *thread = threads_find(threads, tid);
    if (thread == NULL)
        thread = threads_admit_scanned(threads, tid, scan->now_ns);
    if (thread != NULL)
        thread->scan = scan->collector->scans;
}

/* Threads that a complete scan did not see have ended, and the record of it was lost. */
static void scan_conclude(struct collector *collector, uint64_t now_ns)
{
    for (uint32_t i = 0; i < collector->threads.used; i++) {
        struct thread *thread = &collector->threads.list[i];
        if (thread->tid != 0 && thread->scan != collector->scans &&
            now_ns - thread->seen_ns > 1000000000u)
            thread->dead = true;
    }
}

/* Unknown threads: soon where a record told of one, else now and then. A thread that has a slot
 * reserved is about to come by itself, and gets some time for that. */
static void scan_if_due(struct collector *collector, const struct mailbox *mailbox, uint64_t now_ns)
{
    uint64_t since_ns = now_ns - collector->scanned_ns;
    if (since_ns < (collector->scan_wanted ? SCAN_SOON_NS : SCAN_NS))
        return;
    if (since_ns < SCAN_NS && mailbox_has_reserved(mailbox))
        return;
    collector->scan_wanted = false;
    collector->scanned_ns = now_ns;
    collector->scans++;
    struct scan scan = {collector, now_ns};
    if (proc_tasks_read(collector->threads.plan.app_pid, scan_thread, &scan) == 0)
        scan_conclude(collector, now_ns);
}

void collector_keep_house(struct collector *collector, const struct mailbox *mailbox)
{
    struct threads *threads = &collector->threads;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    scan_if_due(collector, mailbox, now_ns);
    if (collector->maps_wanted)
        modules_scan(&collector->modules);
    collector->maps_wanted = false;
    for (uint32_t i = 0; i < threads->used && !collector->exec_seen; i++) {
        struct thread *thread = &threads->list[i];
        if (thread->tid == 0)
            continue;
        if (thread->dead) {
            settle_account(collector, thread);
            balance_ended(collector, thread);
            threads_retire(threads, thread);
        } else if (now_ns >= thread->retry_ns && now_ns - thread->seen_ns >= SETTLE_AGE_NS &&
                   thread_is_misfit(threads, thread)) {
            settle(collector, thread);
        } else {
            thread_redraw_period(threads, thread);
        }
        if (collector->between_records != NULL)
            collector->between_records(collector->context);
    }
}

void collector_settle_accounts(struct collector *collector)
{
    for (uint32_t i = 0; i < collector->threads.used; i++) {
        struct thread *thread = &collector->threads.list[i];
        if (thread->tid == 0)
            continue;
        settle_account(collector, thread);
        balance_ended(collector, thread);
        if (thread->event.mapping == NULL)
            collector->threads.uncovered++;
    }
}
