/* Threads and their events, the helper's side. Never waits for a thread. */
#include "threads.h"

#include <sys/resource.h>

#include "descriptors.h"
#include "engine.h"
#include "labels.h"
#include "number_file.h"
#include "proc_tasks.h"
#include "profile.h"
#include "record.h"
#include "sampling.h"
#include "sys.h"
#include "text.h"

#define RING_BYTES_MIN       (8u * EVENT_PAGE_BYTES)
#define RING_BYTES_MAX       (4u * 1024 * 1024)
#define RING_NEED_NS         110000000u /* of samples at full speed should fit a ring, if it can be had */
#define BIRTH_RING_BYTES_MAX (16u * EVENT_PAGE_BYTES)
#define BIRTH_RING_BYTES_MIN (4u * EVENT_PAGE_BYTES)
#define CHURN_PER_SECOND     500u
#define BIRTHS_WORTH         250u /* in a second of CPU time, of which they take 3 % */
#define THINNED_PER_SECOND   250u
#define ONE_IN_MAX           32u
#define CHURN_JUDGED_NS      50000000u
#define CHURN_JUDGED_SOON_NS 5000000u /* where so many have ended: */
#define CHURN_SURE           32u
#define BIRTHS_FORESEEN      64u /* between two looks of the helper */
#define RECORDS_MIN          4u  /* of one ring: the stack copy is cut down to that */
#define STACK_BYTES_FIRST    32768u
#define STACK_BYTES_LEAST    16384u
#define GROWTH               4u /* of a copy that was too small */
#define SHRINK_LOG           3u /* next time eight times as long */
#define SHRINK_TIMES         5u
#define SHRINK_SAMPLES       500u
#define NEED_BYTES_MAX       (1024u * 1024) /* more than any copy */
#define STACK_BYTES_AMPLE    49152u         /* where a ring can be as large as this: */
#define AMPLE_RING_BYTES     (2u * 1024 * 1024)
#define FAST_PERIOD_NS       500000u
#define UNLIMITED_BYTES      (64u * 1024 * 1024) /* what we take where nothing limits us */
#define REDRAW_SAMPLES       32u
#define SILENT_PERIOD_NS     (1ull << 50) /* thirteen days of one thread's CPU time */

/* A scan may find a thread this long before its own post is read. */
#define SCANNED_EARLY_NS 10000000000u

static uint64_t random_next(struct threads *threads)
{
    return threads->random = sampling_mix(threads->random);
}

static bool block_make(struct threads *threads, uint32_t index)
{
    if (threads->blocks[index] == NULL)
        threads->blocks[index] =
            arena_alloc_array(threads->arena, THREADS_BLOCK, sizeof(struct thread));
    return threads->blocks[index] != NULL;
}

int threads_init(struct threads *threads, const struct threads_plan *plan, struct arena *arena)
{
    *threads = (struct threads){
        .plan = *plan,
        .arena = arena,
        .births_one_in = 1,
        .random = sys_clock_ns(CLOCK_MONOTONIC) ^ (uint64_t)plan->app_pid << 40,
    };
    return block_make(threads, 0) ? 0 : -ENOMEM;
}

static struct thread *entry_free(struct threads *threads)
{
    for (uint32_t i = 0; i < threads->used; i++)
        if (threads_at(threads, i)->tid == 0)
            return threads_at(threads, i);
    if (threads->used == THREADS_MAX || !block_make(threads, threads->used / THREADS_BLOCK))
        return NULL;
    return threads_at(threads, threads->used++);
}

/* A free entry for a new thread; NULL where the table is full. */
static struct thread *entry_make(struct threads *threads, pid_t tid, uint64_t now_ns)
{
    struct thread *thread = entry_free(threads);
    if (thread == NULL) {
        threads->uncovered++;
        return NULL;
    }
    deep_stack_reset(&thread->deep);
    *thread = (struct thread){.tid = tid,
                              .event.fd = -1,
                              .deep = thread->deep,
                              .text = UINT32_MAX,
                              .label_entry = LABEL_NO_ENTRY,
                              .last_node = PROFILE_NONE,
                              .seen_node = PROFILE_NONE,
                              .kernel_node = PROFILE_NONE,
                              .one_in = 1,
                              .fast_rarity = 1,
                              .birth_nominal_ns = threads->plan.period_ns,
                              .seen_ns = now_ns};
    threads->live++;
    threads->total++;
    return thread;
}

/* The entry for a birth: where a scan has found the thread before it posted itself, that one. */
static struct thread *entry_for_birth(struct threads *threads, pid_t tid, uint64_t now_ns)
{
    struct thread *known = threads_find(threads, tid);
    if (known != NULL && known->scanned && now_ns - known->seen_ns < SCANNED_EARLY_NS)
        return known;
    if (known != NULL)
        known->dead = true; /* the id is another thread's now; the record of the end was lost */
    return entry_make(threads, tid, now_ns);
}

struct thread *threads_admit(struct threads *threads, const struct birth *birth, uint64_t now_ns)
{
    struct event event = birth->event;
    if (!engine_is_alive(&event)) /* it will be asked for a new one */
        event = (struct event){.fd = -1};
    struct thread *thread = entry_for_birth(threads, birth->tid, now_ns);
    if (thread == NULL || thread->settled) {
        engine_close(&event);
        if (thread != NULL) /* the ring just closed may have told of a new name */
            thread_refresh_name(threads_proc_pid(threads), thread);
        return thread;
    }
    thread->scanned = thread->is_old = false;
    thread->event = event;
    thread->plain = birth->plain;
    thread->passed_over = birth->passed_over;
    thread->one_in = birth->one_in > 1 ? birth->one_in : 1;
    thread->by_timer = event.timer != NULL;
    if (thread->by_timer)
        thread->birth_nominal_ns = birth->period_ns;
    else if (birth->nominal_ns != 0)
        thread->birth_nominal_ns = birth->nominal_ns;
    thread->fast_rarity = birth->fast_rarity > 1 ? birth->fast_rarity : 1;
    thread->shortest_ns = birth->shortest_ns;
    threads->timed += thread->by_timer;
    threads->own_ns += birth->own_ns;
    thread->birth_cpu_ns = thread->base_cpu_ns = birth->cpu_ns;
    /* Another library's wrapper of the thread's function has computed: more than libc's few us. */
    if (birth->before_ns > threads->plan.period_ns)
        thread->owed_ns = birth->before_ns;
    thread->stack_bytes = birth->stack_bytes;
    thread->period_ns = birth->period_ns;
    if (event.mapping != NULL)
        thread->ring = ring_over(event.mapping, event.mapping_bytes);
    if (birth->name[0] != '\0') /* else a scan has read it */
        __builtin_memcpy(thread->name, birth->name, sizeof thread->name);
    return thread;
}

struct thread *threads_admit_scanned(struct threads *threads, pid_t tid, uint64_t now_ns)
{
    struct thread *thread = entry_make(threads, tid, now_ns);
    if (thread != NULL) {
        thread->scanned = true;
        thread_refresh_name(threads_proc_pid(threads), thread);
    }
    return thread;
}

struct thread *threads_find(struct threads *threads, pid_t tid)
{
    for (uint32_t i = 0; i < threads->used; i++)
        if (threads_at(threads, i)->tid == tid && !threads_at(threads, i)->dead)
            return threads_at(threads, i);
    return NULL;
}

struct thread *threads_find_ending(struct threads *threads, pid_t tid)
{
    struct thread *thread = threads_find(threads, tid);
    for (uint32_t i = 0; i < threads->used && thread == NULL; i++)
        if (threads_at(threads, i)->tid == tid)
            thread = threads_at(threads, i);
    return thread;
}

bool threads_has_left(const struct threads *threads, pid_t tid)
{
    for (uint32_t i = 0; i < THREADS_LEFT; i++)
        if (threads->left[i] == tid)
            return true;
    for (uint32_t i = 0; i < threads->used; i++)
        if (threads_at(threads, i)->tid == tid && threads_at(threads, i)->by_timer)
            return true;
    return false;
}

void thread_count_uncovered(struct threads *threads, const struct thread *thread)
{
    threads->found += thread->scanned;
    if (thread->event.mapping != NULL && !engine_was_spared(&thread->event))
        return;
    if (thread->passed_over && !thread->refused)
        threads->thinned++;
    else
        threads->uncovered++;
}

uint64_t threads_uncovered(const struct threads *threads, uint32_t unannounced)
{
    uint64_t unseen = unannounced > threads->found ? unannounced - threads->found : 0;
    return threads->uncovered + unseen;
}

void threads_retire(struct threads *threads, struct thread *thread)
{
    /* One that a scan has found at its very end was most likely known before. */
    if (thread->event.mapping == NULL && thread->scanned && !thread->refused)
        threads->total--;
    else
        thread_count_uncovered(threads, thread);
    engine_close(&thread->event);
    deep_stack_end(&thread->deep);
    threads->short_lives += !thread->settled;
    if (thread->by_timer || thread->end_cpu_ns != 0)
        threads->left[threads->left_count++ % THREADS_LEFT] = thread->tid;
    thread->tid = 0;
    threads->live--;
    while (threads->used > 0 && threads_at(threads, threads->used - 1)->tid == 0)
        threads->used--;
}

static uint64_t power_of_two_up(uint64_t value)
{
    uint64_t power = 1;
    while (power < value)
        power *= 2;
    return power;
}

void threads_note_idle(struct threads *threads)
{
    threads->idle = 0;
    threads->idle_bytes = 0;
    for (uint32_t i = 0; i < threads->used; i++) {
        const struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0 || thread->settled || thread->sampled || thread->by_timer ||
            thread->event.mapping == NULL)
            continue;
        threads->idle++;
        threads->idle_bytes += thread->event.mapping_bytes;
    }
}

/* The part of the budget of each thread that is not idle: by the next power of two of their number,
 * so that rings are not re-made for every thread that comes, with an eighth left for those being
 * born. A thread has at most half of it: a ring that replaces another is there beside it for a
 * moment. */
static uint64_t ring_share_bytes(const struct threads *threads)
{
    uint32_t busy = threads_busy(threads);
    uint64_t count = power_of_two_up(busy < 2 ? 2 : busy);
    uint64_t most = threads->plan.budget_bytes * 7 / 8;
    uint64_t budget = most > threads->idle_bytes ? most - threads->idle_bytes : 0;
    uint64_t share = power_of_two_up((budget / count) / 2 + 1);
    if (share > RING_BYTES_MAX)
        return RING_BYTES_MAX;
    return share < RING_BYTES_MIN ? RING_BYTES_MIN : share;
}

/* When a copy is judged to be too large, and how small it may become. */
struct shrinking {
    uint64_t after_ns;   /* of the thread's time under one event */
    uint32_t spare;      /* times what its stacks need */
    uint32_t step_bytes; /* a multiple of this */
    uint32_t least_bytes;
};

/*
 * If stacks grow again after all, some of them are cut: those of 50 ms at the most where samples
 * are slow, and of 12 ms where they are fast, see threads_patience_ns. That is half a percent of
 * the time until then, or six; after each time the next is eight times as far.
 */
static const struct shrinking slow_shrinking = {10000000000u, 4, EVENT_PAGE_BYTES,
                                                STACK_BYTES_LEAST};
static const struct shrinking fast_shrinking = {200000000u, 2, 1024, 4096};

static bool is_fast(const struct threads *threads)
{
    return threads->plan.period_ns < FAST_PERIOD_NS;
}

/* What is enough for THREAD, if that is a half of its copy or less. */
static uint32_t stack_enough_bytes(const struct threads *threads, const struct thread *thread)
{
    const struct shrinking *how = is_fast(threads) ? &fast_shrinking : &slow_shrinking;
    uint32_t enough = (thread->needed_bytes * how->spare + how->step_bytes - 1) / how->step_bytes *
                      how->step_bytes;
    if (enough < how->least_bytes)
        enough = how->least_bytes;
    bool is_judged = thread->settled && thread->shrunk < SHRINK_TIMES &&
                     thread->needs_noted >= SHRINK_SAMPLES &&
                     thread->count_ns >= how->after_ns << SHRINK_LOG * thread->shrunk;
    return is_judged && enough <= thread->stack_bytes / 2 ? enough : 0;
}

/* Of a settled event whose thread has not shown what it needs. At a high rate large copies cost
 * more than the samples: half a gigabyte in a second drives the program's own data out of the
 * caches. There they begin small, and are larger after the first look that finds one cut. */
static uint32_t stack_first_bytes(const struct threads *threads)
{
    if (is_fast(threads))
        return STACK_BYTES_LEAST;
    return ring_share_bytes(threads) >= AMPLE_RING_BYTES ? STACK_BYTES_AMPLE : STACK_BYTES_FIRST;
}

static uint32_t stack_wanted_bytes(const struct threads *threads, const struct thread *thread)
{
    if (threads->plan.stack_bytes != 0)
        return threads->plan.stack_bytes;
    uint32_t enough = stack_enough_bytes(threads, thread);
    if (enough != 0 && !thread->wants_more_stack)
        return enough;
    uint32_t least = stack_first_bytes(threads);
    uint32_t more = thread->stack_bytes * GROWTH;
    if (more < least)
        more = least;
    if (thread->wants_more_stack)
        return more < EVENT_STACK_BYTES_MAX ? more : EVENT_STACK_BYTES_MAX;
    /* Once shrunk: its ring is refitted for another reason. */
    return thread->shrunk > 0 ? thread->stack_bytes : least;
}

static struct event_shape settled_shape(struct threads *threads, const struct thread *thread)
{
    struct event_shape shape = {
        .period_ns = sampling_settled_period_ns(threads->plan.period_ns, random_next(threads)),
        .stack_bytes = stack_wanted_bytes(threads, thread),
    };
    uint64_t need = RING_NEED_NS / threads->plan.period_ns + 2 * RECORDS_MIN;
    shape.ring_bytes = power_of_two_up(need * event_record_bytes(&shape));
    uint64_t share = ring_share_bytes(threads);
    if (shape.ring_bytes > share)
        shape.ring_bytes = share;
    return shape;
}

/* Cuts the stack copy down so that RECORDS_MIN samples fit the ring. */
static void shape_fit_stack(struct event_shape *shape)
{
    size_t room = shape->ring_bytes / RECORDS_MIN;
    if (event_record_bytes(shape) > room)
        shape->stack_bytes = (uint32_t)(room - RECORD_SAMPLE_FIXED_BYTES) & ~7u;
}

int thread_open_settled(struct threads *threads, const struct thread *thread, struct event *settled,
                        struct event_shape *shape)
{
    if (threads->plan.traits->by_timer)
        return -EPERM;
    *shape = settled_shape(threads, thread);
    for (;;) {
        shape_fit_stack(shape);
        int result = event_open(settled, threads->plan.traits, shape, thread->tid);
        /* EPERM may mean that the locked memory is used up: less of it may do. */
        if (result != -EPERM || shape->ring_bytes <= RING_BYTES_MIN)
            return result;
        shape->ring_bytes /= 2;
    }
}

/* The last descriptors are for files, and for the end's work. The mapping keeps the event without
 * one; its period then stays as it is, and what it counts after the last sample is not known. */
static void descriptor_spare(struct event *event)
{
    if (!descriptor_is_for_files(event->fd))
        return;
    sys_close(event->fd);
    event->fd = -1;
}

void thread_replace(const struct threads *threads, struct thread *thread,
                    const struct event *settled, const struct event_shape *shape,
                    uint64_t base_cpu_ns)
{
    if (stack_enough_bytes(threads, thread) != 0 && !thread->wants_more_stack)
        thread->shrunk++;
    thread->needed_bytes = thread->needs_noted = 0;
    engine_close(&thread->event);
    thread->event = *settled;
    descriptor_spare(&thread->event);
    thread->ring = ring_over(settled->mapping, settled->mapping_bytes);
    thread->settled = true;
    thread->one_in = 1;
    thread->wants_more_stack = false;
    thread->stack_bytes = shape->stack_bytes;
    thread->period_ns = shape->period_ns;
    thread->period_is_new = false; /* it begins with the count */
    thread->count_ns = 0;
    thread->base_cpu_ns = base_cpu_ns;
    thread->stolen_ns = thread->switched_ns = 0;
    thread->switches = 0;
    thread->samples_since_draw = 0;
    thread->lost_since_sample = 0;
    thread->ring_was_full = false;
}

void thread_note_need(struct thread *thread, size_t bytes)
{
    thread->needs_noted++;
    if (bytes > thread->needed_bytes)
        thread->needed_bytes = bytes < NEED_BYTES_MAX ? (uint32_t)bytes : NEED_BYTES_MAX;
}

bool thread_is_misfit(const struct threads *threads, const struct thread *thread)
{
    if (thread->by_timer)
        return false;
    if (!thread->settled)
        return true;
    size_t ring_bytes = ring_mapped_bytes(thread->event.mapping_bytes);
    uint64_t share = ring_share_bytes(threads);
    if (ring_bytes > share)
        return true;
    struct event_shape larger = {.stack_bytes = EVENT_STACK_BYTES_MAX, .ring_bytes = share};
    shape_fit_stack(&larger);
    if (threads->plan.stack_bytes != 0)
        return false;
    return thread->wants_more_stack ? larger.stack_bytes > thread->stack_bytes
                                    : stack_enough_bytes(threads, thread) != 0;
}

void thread_redraw_period(struct threads *threads, struct thread *thread)
{
    if (!thread->settled || thread->samples_since_draw < REDRAW_SAMPLES)
        return;
    thread->samples_since_draw = 0;
    uint64_t period_ns = sampling_settled_period_ns(threads->plan.period_ns, random_next(threads));
    if (event_set_period(&thread->event, period_ns) != 0)
        return;
    thread->period_ns = period_ns;
    thread->period_is_new = true;
}

void thread_silence(struct thread *thread)
{
    if (thread->settled && event_set_period(&thread->event, SILENT_PERIOD_NS) == 0)
        thread->period_ns = SILENT_PERIOD_NS;
}

void thread_unsilence(struct threads *threads, struct thread *thread)
{
    uint64_t count_ns;
    thread->unbalanced |= !thread->settled;
    if (!thread->settled)
        return;
    if (event_read_count(&thread->event, &count_ns) == 0 && count_ns > thread->count_ns)
        thread->count_ns = count_ns;
    if (thread->event.fd < 0)
        return;
    thread->period_ns = sampling_settled_period_ns(threads->plan.period_ns, random_next(threads));
    event_set_period(&thread->event, thread->period_ns);
    thread->period_is_new = true;
    thread->samples_since_draw = 0;
}

/*
 * One birth in how many is worth an event, where ENDED threads of short lives came in PASSED_NS, in
 * which the process used CPU_NS (0: not known). Many threads that live on are no reason: those are
 * settled, each by itself. Nor are threads that hardly come: there would be too few samples.
 */
static uint32_t births_worth(uint64_t ended, uint64_t passed_ns, uint64_t cpu_ns)
{
    if (ended * 1000000000u / passed_ns < THINNED_PER_SECOND)
        return 1;
    uint64_t pace = ended * 1000000000u / (cpu_ns != 0 ? cpu_ns : passed_ns) / BIRTHS_WORTH;
    return pace < 1 ? 1 : pace > ONE_IN_MAX ? ONE_IN_MAX : (uint32_t)pace;
}

void threads_judge_churn(struct threads *threads, uint64_t now_ns, uint64_t app_cpu_ns)
{
    uint64_t passed_ns = now_ns - threads->counted_ns;
    uint64_t ended = threads->short_lives - threads->counted_short_lives;
    if (passed_ns < (ended < CHURN_SURE ? CHURN_JUDGED_NS : CHURN_JUDGED_SOON_NS))
        return;
    /* A thread that a scan found at its end is taken off the total again. */
    uint64_t births =
        threads->total > threads->counted_total ? threads->total - threads->counted_total : 0;
    uint64_t cpu_ns =
        app_cpu_ns > threads->counted_cpu_ns ? app_cpu_ns - threads->counted_cpu_ns : 0;
    threads->churns = births * 1000000000u / passed_ns > CHURN_PER_SECOND;
    if (!threads->plan.traits->by_timer) /* only the settled make up for those passed over */
        threads->births_one_in = births_worth(ended, passed_ns, cpu_ns);
    threads->counted_short_lives = threads->short_lives;
    threads->counted_cpu_ns = app_cpu_ns;
    threads->counted_ns = now_ns;
    threads->counted_total = threads->total;
}

size_t threads_birth_ring_bytes(const struct threads *threads)
{
    uint64_t used = 0;
    for (uint32_t i = 0; i < threads->used; i++)
        used += threads_at(threads, i)->tid != 0 ? threads_at(threads, i)->event.mapping_bytes : 0;
    uint64_t left = threads->plan.budget_bytes > used ? threads->plan.budget_bytes - used : 0;
    size_t most = threads->churns ? BIRTH_RING_BYTES_MAX / 2 : BIRTH_RING_BYTES_MAX;
    for (size_t bytes = most; bytes > BIRTH_RING_BYTES_MIN; bytes /= 2)
        if (left / event_mapping_bytes(bytes) >= BIRTHS_FORESEEN)
            return bytes;
    return BIRTH_RING_BYTES_MIN;
}

uint64_t threads_patience_ns(const struct threads *threads)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < threads->used; i++) {
        const struct thread *thread = threads_at(threads, i);
        /* What the full ring of a birth loses is made good otherwise. */
        if (thread->tid == 0 || !(thread->settled || thread->by_timer))
            continue;
        struct event_shape shape = {.stack_bytes = thread->stack_bytes};
        /* Where a smaller one may turn out to cut, that is to be seen as soon. */
        if (thread->shrunk > 0 && shape.stack_bytes < STACK_BYTES_LEAST)
            shape.stack_bytes = STACK_BYTES_LEAST;
        uint64_t records =
            ring_mapped_bytes(thread->event.mapping_bytes) / event_record_bytes(&shape);
        if (records * thread->period_ns / 2 < least)
            least = records * thread->period_ns / 2;
    }
    return least;
}

void thread_rename(struct thread *thread, const char *name)
{
    struct text text = text_over(thread->name, sizeof thread->name);
    text_put(&text, name);
    thread->text = UINT32_MAX;
}

void thread_refresh_name(pid_t app_pid, struct thread *thread)
{
    char path[PROC_PATH_BYTES], name[THREAD_NAME_BYTES + 1] = "";
    proc_task_path(path, app_pid, thread->tid, "/comm");
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return;
    long length = sys_read(fd, name, THREAD_NAME_BYTES);
    sys_close(fd);
    if (length > 0 && name[length - 1] == '\n')
        name[length - 1] = '\0';
    if (length > 0)
        thread_rename(thread, name);
}

bool thread_exists(pid_t app_pid, pid_t tid)
{
    char path[PROC_PATH_BYTES];
    if (app_pid < 0) /* nobody can say */
        return true;
    proc_task_path(path, app_pid, tid, "/comm");
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd >= 0)
        sys_close(fd);
    return fd >= 0;
}

uint64_t threads_budget_bytes(bool privileged)
{
    struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
    sys4(SYS_prlimit64, 0, RLIMIT_MEMLOCK, NULL, &limit);
    uint64_t granted_kb = number_file_read("/proc/sys/kernel/perf_event_mlock_kb", 0);
    int64_t paranoid = number_file_read_signed("/proc/sys/kernel/perf_event_paranoid", 2);
    bool unlimited = limit.rlim_cur == RLIM_INFINITY || paranoid < 0 || privileged;
    uint64_t bytes = unlimited ? UNLIMITED_BYTES : limit.rlim_cur + granted_kb * 1024;
    return bytes < UNLIMITED_BYTES ? bytes : UNLIMITED_BYTES;
}
