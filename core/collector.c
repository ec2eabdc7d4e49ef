/* The stage between the rings and the profile. Runs in the helper. */
#include "collector.h"

#include <errno.h>

#include "engine.h"
#include "record.h"
#include "sampling.h"
#include "sys.h"
#include "text.h"
#include "thread_clock.h"

/* Maps of this age may lack code that a sample is in, where no record tells of it. */
#define MAPS_AGE_NS 20000000u

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
        .labels = setup->labels,
        .between_records = setup->between_records,
        .context = setup->context,
        .bounce = arena_alloc(arena, RECORD_BYTES_MAX),
        .due = arena_alloc_array(arena, THREADS_MAX, sizeof(struct due)),
        /* Threads may have been made before us. Many a process ends before it needs its maps. */
        .scan_wanted = true,
        .maps_wanted = true,
    };
    if (collector->bounce == NULL || collector->due == NULL)
        return -ENOMEM;
    app_memory_init(&collector->memory, arena);
    modules_init(&collector->modules, arena, &collector->memory, setup->our_address);
    collector->modules.linked = setup->linked;
    perf_map_init(&collector->perf_map, "/tmp", setup->plan.app_pid);
    process_watch_init(&collector->watch, &collector->memory, setup->linker_list,
                       setup->plan.proc_is_foreign ? -1 : setup->plan.app_pid);
    unwinder_init(&collector->unwinder, setup->library, &collector->modules, &collector->memory,
                  arena);
    profile_init(&collector->profile, arena);
    int result = stack_builder_init(&collector->stacks, &collector->modules, &collector->unwinder,
                                    &collector->profile, setup->config->threads, arena);
    collector->kernel = (struct kernel_time){.stacks = &collector->stacks,
                                             .is_unseen = kernel_time_is_unseen(setup->plan.traits),
                                             .lateness = &collector->lateness,
                                             .share = &collector->share};
    collector->lateness = setup->lateness;
    collector->stacks.labels = setup->labels;
    collector->stacks.perf_map = &collector->perf_map;
    if (result == 0)
        result = threads_init(&collector->threads, &setup->plan, arena);
    collector->modules.app_pid = threads_proc_pid(&collector->threads);
    return result;
}

/* What a thread used before our hook ran: the system's part of making it, which no sample can tell.
 */
static void book_start(struct collector *collector, struct thread *thread,
                       const struct birth *birth)
{
    if (birth->before_ns != 0 && !collector->paused && !birth->passed_over && thread->owed_ns == 0)
        stack_frames_book(&collector->stacks, thread, "[thread start]",
                          birth->before_ns * thread->one_in);
}

static void take_post(struct collector *collector, const struct birth *birth, uint64_t now_ns)
{
    struct thread *thread = birth->ended ? threads_find_ending(&collector->threads, birth->tid)
                                         : threads_admit(&collector->threads, birth, now_ns);
    if (thread == NULL)
        return;
    if (!birth->ended) {
        thread->unbalanced |= collector->paused;
        book_start(collector, thread, birth);
        return;
    }
    thread->end_cpu_ns = birth->cpu_ns;
    thread->end_switches = birth->switches;
    thread->dead |= thread->passed_over && !thread->settled;
}

void collector_take_births(struct collector *collector, struct mailbox *mailbox)
{
    if (__atomic_load_n(&mailbox->unread, __ATOMIC_ACQUIRE) == 0)
        return;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    struct birth birth;
    uint32_t used = mailbox_used(mailbox);
    for (uint32_t i = 0; i < used; i++)
        if (mailbox_take(mailbox, i, &birth))
            take_post(collector, &birth, now_ns);
}

void collector_note_clock(struct collector *collector, uint64_t app_cpu_ns)
{
    uint64_t given_ns = collector->profile.weight_ns + collector->threads.own_ns;
    sampling_share_note(&collector->share, given_ns, app_cpu_ns);
}

/* Has THREAD's event counted more since its last sample than a missed one or two explain? */
static bool is_implausible(const struct thread *thread, uint64_t more_ns)
{
    uint64_t period_ns = thread->settled ? thread->period_ns : thread->birth_nominal_ns;
    return !thread->by_timer && more_ns > 2 * period_ns;
}

/* Of a sample of THREAD's first event. Where the kernel makes records, too, its first is of the
 * first point. */
static uint64_t birth_weight_ns(const struct collector *collector, const struct thread *thread,
                                uint64_t used_ns)
{
    uint64_t late_ns = collector->lateness.ns;
    struct sampling_birth birth = thread_birth(thread);
    bool is_first =
        !thread->sampled && (!collector->kernel.is_unseen ||
                             sampling_birth_is_first(thread->period_ns, used_ns, late_ns));
    return sampling_birth_weight_ns(&birth, used_ns, is_first, late_ns);
}

/* What a sample weighs, see sampling.h; 0: it does not count. */
static uint64_t weigh(struct collector *collector, struct thread *thread,
                      const struct record *record)
{
    uint64_t count_ns = record->sample.count_ns, before_ns = thread->count_ns;
    if (count_ns < before_ns) /* a damaged record */
        return 0;
    uint64_t weight_ns = count_ns - before_ns;
    if (is_implausible(thread, weight_ns))
        weight_ns -= thread_stolen_ns(&collector->threads, thread, count_ns, weight_ns - 1);
    uint64_t used_before_ns = thread_used_ns(thread);
    thread->count_ns = count_ns;
    uint64_t used_ns = thread_used_ns(thread);
    struct kernel_time_gap gap = {0};
    if (!thread->settled && !thread->by_timer)
        lateness_note(&collector->lateness, thread->period_ns, count_ns);
    if (!thread->settled)
        gap = kernel_time_before_sample(&collector->kernel, thread, used_before_ns, used_ns);
    if (thread->by_timer)
        weight_ns = sampling_timer_weight_ns(thread->birth_nominal_ns, count_ns, before_ns,
                                             !thread->sampled);
    else if (!thread->settled && !thread->plain &&
             used_ns <= SAMPLING_BIRTH_PERIODS * thread->birth_nominal_ns)
        weight_ns = birth_weight_ns(collector, thread, used_ns) + gap.lost_ns;
    else
        weight_ns -= gap.kernel_ns < weight_ns ? gap.kernel_ns : weight_ns;
    thread->weight_ns += weight_ns;
    if (!thread->settled && used_ns > collector->longest_ns)
        collector->longest_ns = used_ns;
    return sampling_share_ns(&collector->share, thread->one_in, weight_ns);
}

/* A sample that does not count, since its thread is paused. */
static void pass_sample(struct thread *thread, const struct record *record)
{
    thread->sampled = true;
    thread->unbalanced |= !thread->settled;
    thread->lost_since_sample = 0;
    if (record->sample.count_ns > thread->count_ns)
        thread->count_ns = record->sample.count_ns;
}

/* The label that THREAD had at TIME_NS. */
static uint32_t label_then(struct collector *collector, struct thread *thread, uint64_t time_ns)
{
    struct labels *labels = collector->labels;
    if (labels == NULL)
        return LABEL_NONE;
    uint32_t taken = __atomic_load_n(&labels->taken, __ATOMIC_ACQUIRE);
    if (thread->label_entry == LABEL_NO_ENTRY && thread->labels_taken != taken) {
        thread->labels_taken = taken;
        thread->label_entry = label_entry_of(labels, thread->tid);
    }
    return thread->label_entry == LABEL_NO_ENTRY ? LABEL_NONE
                                                 : label_at(labels, thread->label_entry, time_ns);
}

void collector_read_maps(struct collector *collector)
{
    if (collector->maps_wanted) {
        modules_scan(&collector->modules);
        collector->maps_read_ns = sys_clock_ns(CLOCK_MONOTONIC);
    }
    collector->maps_wanted = false;
}

/* Code made at run time is on no list of the linker's. */
static void look_for_code(struct collector *collector, const struct record *record)
{
    if (collector->threads.plan.traits->by_timer &&
        record->time_ns > collector->maps_read_ns + MAPS_AGE_NS &&
        modules_find(&collector->modules, record->sample.ip) == NULL)
        collector->maps_wanted = true;
}

static void handle_sample(struct collector *collector, struct thread *thread,
                          const struct record *record)
{
    look_for_code(collector, record);
    collector_read_maps(collector);
    thread->label = label_then(collector, thread, record->time_ns);
    uint64_t weight_ns =
        kernel_time_take(&collector->kernel, thread, weigh(collector, thread, record));
    thread->sampled = true;
    thread->period_is_new = false;
    thread->lost_since_sample = 0;
    thread->samples_since_draw++;
    enum unwind_end end;
    size_t count = stack_frames(&collector->stacks, thread, record, &end);
    if (weight_ns == 0) { /* what its thread's account lacks may still go there */
        thread->last_node = thread->seen_node =
            profile_node_for(&collector->profile, collector->stacks.frames, count);
        return;
    }
    weight_ns += thread->owed_ns;
    thread->owed_ns = 0;
    if (end == UNWIND_ROOT)
        collector->whole++;
    else
        collector->truncated++;
    thread->wants_more_stack |= end == UNWIND_CUT;
    thread_note_need(thread, collector->unwinder.reach_bytes);
    profile_add(&collector->profile, collector->stacks.frames, count, weight_ns,
                &thread->last_node);
    thread->seen_node = thread->last_node;
}

static void handle_name(struct collector *collector, const struct record *record)
{
    struct thread *thread = threads_find(&collector->threads, (pid_t)record->tid);
    if (thread != NULL)
        thread_rename(thread, record->name);
}

/* What else was lost with samples: a new name, new mappings, births and ends of threads. */
static void handle_loss(struct collector *collector, struct thread *thread,
                        const struct record *record)
{
    collector->lost += thread->settled ? record->lost : 0;
    thread->lost_since_sample += record->lost;
    thread->samples_since_draw += (uint32_t)record->lost;
    collector->scan_wanted = collector->maps_wanted = true;
    thread_refresh_name(threads_proc_pid(&collector->threads), thread);
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
        if (collector->paused)
            pass_sample(thread, record);
        else
            handle_sample(collector, thread, record);
        break;
    case RECORD_NAME:
        handle_name(collector, record);
        break;
    case RECORD_EXEC:
        collector->exec_seen = true;
        collector->exec_ns = record->time_ns;
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
        if ((pid_t)record->tid == thread->tid) {
            thread->dead = true;
            thread->ring_was_full = false; /* what was lost has been told before */
        }
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

/* Handles the oldest record of THREAD's ring, if there is one. */
static void handle_next(struct collector *collector, struct thread *thread)
{
    size_t bytes;
    const void *data = ring_peek(&thread->ring, &bytes, collector->bounce);
    if (data == NULL)
        return;
    struct record record;
    if (record_decode(&record, data, bytes, collector->threads.plan.traits->kernel_frames) == 0)
        handle(collector, thread, &record);
    ring_advance(&thread->ring, bytes);
    collector_pause(collector);
}

void collector_pause(const struct collector *collector)
{
    if (collector->between_records != NULL)
        collector->between_records(collector->context);
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

/* The most that a sample of THREAD's event takes, kernel frames apart. */
static size_t record_bytes(const struct thread *thread)
{
    const struct event_shape shape = {.stack_bytes = thread->stack_bytes};
    return event_record_bytes(&shape);
}

static uint32_t due_gather(struct collector *collector)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < collector->threads.used; i++) {
        struct thread *thread = threads_at(&collector->threads, i);
        if (thread->tid == 0 || thread->event.mapping == NULL || !ring_has_data(&thread->ring))
            continue;
        thread->ring_was_full = !ring_has_room(&thread->ring, record_bytes(thread));
        collector->due[count++] = (struct due){ring_peek_time_ns(&thread->ring), i};
    }
    for (uint32_t i = count / 2; i-- > 0;)
        due_sink(collector->due, count, i);
    return count;
}

bool collector_look(struct collector *collector, bool at_once)
{
    if (!collector->threads.plan.traits->by_timer)
        return false;
    collector->maps_wanted |= process_watch_libraries(&collector->watch);
    return process_watch_exec(&collector->watch, at_once);
}

void collector_drain(struct collector *collector, uint64_t until_ns)
{
    struct due *due = collector->due;
    uint32_t count = due_gather(collector);
    collector->unwinder.watch_wanted = false;
    while (count > 0 && due[0].time_ns <= until_ns && !collector->exec_seen) {
        struct thread *thread = threads_at(&collector->threads, due[0].thread);
        handle_next(collector, thread);
        if (ring_has_data(&thread->ring))
            due[0].time_ns = ring_peek_time_ns(&thread->ring);
        else
            due[0] = due[--count];
        due_sink(due, count, 0);
    }
    if (collector->labels != NULL)
        labels_advance(collector->labels, until_ns);
}

void collector_drain_thread(struct collector *collector, struct thread *thread, uint64_t until_ns)
{
    /* The event still runs: what it records from here on is not waited for. */
    while (!collector->exec_seen && ring_has_data(&thread->ring) &&
           ring_peek_time_ns(&thread->ring) <= until_ns)
        handle_next(collector, thread);
}

void collector_close(struct collector *collector)
{
    for (uint32_t i = 0; i < collector->threads.used; i++) {
        engine_close(&threads_at(&collector->threads, i)->event);
        deep_stack_end(&threads_at(&collector->threads, i)->deep);
    }
    modules_close(&collector->modules);
    app_memory_close(&collector->memory);
    perf_map_close(&collector->perf_map);
}
