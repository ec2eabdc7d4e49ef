/*
 * The helper's life: take births, drain, unwind, count, keep house, sleep; at the end write the
 * file.
 *
 * Runs in the helper only. Every loop ends: the main one when the app says so, is gone or has
 * become another program.
 */
#include "session.h"

#include <linux/futex.h>

#include "collector.h"
#include "follow.h"
#include "housekeeping.h"
#include "nap.h"
#include "publish.h"
#include "requests.h"
#include "seccomp_filter.h"
#include "sys.h"

#define ARENA_BYTES_MAX (512u * 1024 * 1024)

#define SLEEP_NS_MIN   500000u
#define SLEEP_NS_MAX   50000000u
#define FITTED_NS      8000000u /* a new event has samples by then */
#define SLEEP_NS_YOUNG 2000000u /* while threads wait to be settled */
#define YOUNG_NS       20000000u

/* A watch that is broken costs its thread time until the next turn. */
#define SLEEP_NS_WATCHING 5000000u

#define KERNEL_SYMBOLS_AFTER_NS  300000000u /* many a process has ended by then */
#define KERNEL_SYMBOLS_BYTES_MIN 16384u

#define PERF_MAP_PART_BYTES (32u << 20)

/* Busy threads of the program that would leave the helper too little of the processors. */
#define THREADS_MANY 6u

#define QUIET_NS_MAX 2000000000u /* the longest that forks can hold us up */

struct run {
    struct session *session;
    struct arena arena;
    struct collector collector;
    struct housekeeping house;
    struct publisher publisher;
    struct follower follower;
    struct requests requests;
    uint64_t app_cpu_ns; /* the process's CPU clock when it was last readable, less what is next */
    uint64_t paused_cpu_ns; /* what it used in pauses that are over */
    uint64_t pause_cpu_ns;  /* its clock when the pause of now began */
    uint32_t snapshots;     /* that signals asked for and that are done */
    uint32_t looks;         /* the same of looks */
    uint64_t checkpointed_ns;
    uint64_t started_ns;
};

uint64_t session_app_cpu_ns(const struct session *session)
{
    uint64_t own_ns = helper_cpu_in_app_ns(&session->helper);
    uint64_t all_ns = sys_clock_ns((clockid_t)(~(unsigned)session->app_pid << 3 | 2));
    return all_ns > own_ns ? all_ns - own_ns : 0;
}

static bool app_is_gone(const void *helper)
{
    return helper_app_is_gone(helper);
}

static struct quiet_patience patience(const struct session *session)
{
    return (struct quiet_patience){QUIET_NS_MAX, app_is_gone, &session->helper};
}

/* Lets a fork go ahead where nothing is half-done. */
static void quiet_keep(void *context)
{
    struct session *session = context;
    struct quiet_patience fork_patience = patience(session);
    quiet_yield(&session->quiet, &fork_patience);
}

/* Does /proc/self bear another number than ours? */
static bool proc_is_foreign(void)
{
    char name[16] = "";
    if (sys4(SYS_readlinkat, AT_FDCWD, "/proc/self", name, sizeof name - 1) < 0)
        return true;
    char own[sizeof name] = "";
    struct text text = text_over(own, sizeof own);
    text_put_i64(&text, sys0(SYS_getpid));
    return __builtin_memcmp(name, own, sizeof own) != 0;
}

static bool run_init(struct run *run, struct session *session)
{
    arena_init(&run->arena, ARENA_BYTES_MAX);
    run->session = session;
    struct collector_setup setup = {
        .arena = &run->arena,
        .config = &session->config,
        .plan = {.traits = &session->traits,
                 .timers = session->config.engine != CONFIG_ENGINE_PERF ? &session->timers : NULL,
                 .period_ns = session->period_ns,
                 .stack_bytes = session->config.stack_bytes,
                 .budget_bytes = threads_budget_bytes(sys0(SYS_geteuid) == 0),
                 .had_threads = session->had_threads,
                 .app_pid = session->app_pid,
                 .proc_is_foreign = proc_is_foreign()},
        .library = &session->library,
        .linked = &session->linked,
        .linker_list = session->linker_list,
        .our_address = session->our_address,
        .lateness = session->lateness,
        .labels = &session->labels,
        .between_records = quiet_keep,
        .context = session,
    };
    run->started_ns = run->checkpointed_ns = sys_clock_ns(CLOCK_MONOTONIC);
    requests_open(&run->requests, &session->helper); /* whoever sees the status may ask */
    publisher_init(&run->publisher, session, &run->collector);
    session->helper.give_up_context = &run->publisher;
    session->helper.give_up = publisher_give_up;
    housekeeping_init(&run->house, &run->collector, &session->first_clock);
    return collector_init(&run->collector, &setup) == 0;
}

/* Puts what is wanted of pauses into force, and says so to those who wait for it. */
static void pause_apply(struct run *run)
{
    struct session *session = run->session;
    bool wanted = __atomic_load_n(&session->helper.pause_wanted, __ATOMIC_ACQUIRE) != 0;
    if (wanted == run->collector.paused)
        return;
    uint64_t clock_ns = session_app_cpu_ns(session);
    if (wanted) {
        housekeeping_pause(&run->house);
        run->pause_cpu_ns = clock_ns;
    } else {
        housekeeping_resume(&run->house);
        if (clock_ns > run->pause_cpu_ns)
            run->paused_cpu_ns += clock_ns - run->pause_cpu_ns;
    }
    __atomic_store_n(&session->paused, wanted, __ATOMIC_SEQ_CST);
    sys3(SYS_futex, &session->paused, FUTEX_WAKE, INT32_MAX);
    publisher_tell_pause(&run->publisher, wanted);
}

/* Those that wait to be settled, and those whose new event may turn out to copy too little of the
 * stack. */
static bool has_young_threads(const struct threads *threads, uint64_t now_ns)
{
    for (uint32_t i = 0; i < threads->used; i++) {
        const struct thread *thread = threads_at(threads, i);
        uint64_t age_ns = now_ns - (thread->settled ? thread->fitted_ns : thread->seen_ns);
        if (thread->tid != 0 && age_ns < (thread->settled ? FITTED_NS : YOUNG_NS))
            return true;
    }
    return false;
}

static bool has_watches(const struct threads *threads)
{
    for (uint32_t i = 0; i < threads->used; i++)
        if (threads_at(threads, i)->tid != 0 && threads_at(threads, i)->deep.watch >= 0)
            return true;
    return false;
}

static uint64_t sleep_ns(const struct run *run)
{
    const struct threads *threads = &run->collector.threads;
    uint64_t ns = threads_patience_ns(threads);
    if (ns > SLEEP_NS_YOUNG &&
        (run->collector.scan_wanted || run->collector.unwinder.watch_wanted ||
         has_young_threads(threads, sys_clock_ns(CLOCK_MONOTONIC))))
        ns = SLEEP_NS_YOUNG;
    if (ns > SLEEP_NS_WATCHING && has_watches(threads))
        ns = SLEEP_NS_WATCHING;
    if (ns > SLEEP_NS_MAX)
        ns = SLEEP_NS_MAX;
    return ns < SLEEP_NS_MIN || session_exec_is_near(run->session) ? SLEEP_NS_MIN : ns;
}

static void look_take(struct run *run)
{
    uint32_t wanted = __atomic_load_n(&run->session->helper.looks_wanted, __ATOMIC_ACQUIRE);
    if (wanted == run->looks)
        return;
    run->looks = wanted;
    publisher_look(&run->publisher, wanted, run->app_cpu_ns);
}

static void checkpoint_if_due(struct run *run)
{
    struct session *session = run->session;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    uint64_t every_ns = session->config.checkpoint_seconds * 1000000000ull;
    /* The first process of a pid namespace takes us with it when it is killed, and any process does
     * its threads. */
    if (every_ns == 0 && (session->app_pid == 1 || session->helper.kind == HELPER_THREAD))
        every_ns = 5000000000u;
    if (every_ns == 0 || now_ns - run->checkpointed_ns < every_ns)
        return;
    run->checkpointed_ns = now_ns;
    publisher_checkpoint(&run->publisher, run->app_cpu_ns);
}

/* Those that signals and those that the app asked for before this turn. */
static void snapshots_take(struct run *run, uint32_t wanted)
{
    struct session_snapshot *asked = &run->session->snapshot;
    if (wanted != run->snapshots) {
        run->checkpointed_ns = sys_clock_ns(CLOCK_MONOTONIC);
        run->snapshots = wanted;
        publisher_answer(&run->publisher, wanted,
                         publisher_checkpoint(&run->publisher, run->app_cpu_ns));
    }
    if (__atomic_load_n(&asked->state, __ATOMIC_ACQUIRE) != SESSION_ASK_WAITS)
        return;
    asked->result = publisher_snapshot(&run->publisher, asked->path, run->app_cpu_ns);
    __atomic_store_n(&asked->state, SESSION_ASK_ANSWERED, __ATOMIC_SEQ_CST);
    sys3(SYS_futex, &asked->state, FUTEX_WAKE, INT32_MAX);
}

/*
 * Reads some kernel symbols ahead of the end, if there will be frames to name with them: for no
 * longer than an eighth of the sleep that follows, so that the rings do not run over.
 */
static void kernel_symbols_get_on(struct run *run, uint64_t next_sleep_ns)
{
    if (!run->session->traits.kernel_frames || run->collector.profile.samples == 0 ||
        sys_clock_ns(CLOCK_MONOTONIC) - run->started_ns < KERNEL_SYMBOLS_AFTER_NS)
        return;
    size_t bytes = next_sleep_ns / 8 / KERNEL_SYMBOLS_NS_A_BYTE;
    kernel_symbols_step(&run->publisher.kernel,
                        bytes > KERNEL_SYMBOLS_BYTES_MIN ? bytes : KERNEL_SYMBOLS_BYTES_MIN);
}

/* What JIT compilers have told since the last turn, for as much time as it may take. */
static void perf_map_get_on(struct run *run)
{
    uint64_t bytes = sleep_ns(run) / 8 / PERF_MAP_NS_A_BYTE;
    perf_map_look(&run->collector.perf_map, bytes);
}

/* All of it, before the names are needed; whoever waits for us sees that we get on. */
static void perf_map_finish(struct run *run)
{
    while (perf_map_look(&run->collector.perf_map, PERF_MAP_PART_BYTES))
        __atomic_add_fetch(&run->session->progress, 1, __ATOMIC_RELAXED);
}

/* The process's clock stood at NOW_NS at least. */
static void clock_set(struct run *run, uint64_t now_ns)
{
    if (run->collector.paused && now_ns > run->pause_cpu_ns)
        now_ns = run->pause_cpu_ns;
    uint64_t outside_ns = run->session->cpu_at_start_ns + run->paused_cpu_ns;
    if (now_ns > outside_ns + run->app_cpu_ns)
        run->app_cpu_ns = now_ns - outside_ns;
}

static void clock_read(struct run *run)
{
    clock_set(run, session_app_cpu_ns(run->session));
    collector_note_clock(&run->collector, run->app_cpu_ns);
}

/* What the thread that exec'd has noted is its last word, as others have theirs at their ends. */
static void noted_clocks_take(struct run *run)
{
    const struct session *session = run->session;
    uint64_t cpu_ns = __atomic_load_n(&session->exec_cpu_ns, __ATOMIC_ACQUIRE);
    clock_set(run, cpu_ns);
    struct thread *thread =
        cpu_ns != 0 ? threads_find(&run->collector.threads, session->exec_tid) : NULL;
    if (thread != NULL)
        thread->end_cpu_ns = session->exec_tid_ns;
}

/*
 * After an exec the process has one thread: by now the next program has used no more than the time
 * that has passed, and may have used less. What the program noted before is short of what its
 * threads used until they were ended. Where no record tells when it was, the books stay as they
 * are.
 */
static void books_close(struct run *run)
{
    const struct collector *collector = &run->collector;
    struct session *session = run->session;
    uint64_t late_ns = 0;
    if (collector->exec_seen) {
        noted_clocks_take(run);
        if (collector->exec_ns == 0)
            return;
        late_ns = sys_clock_ns(CLOCK_MONOTONIC) - collector->exec_ns;
        uint64_t now_ns = session_app_cpu_ns(session);
        clock_set(run, now_ns > late_ns ? now_ns - late_ns : 0);
    }
    accounts_close_all(&run->house.accounts, run->app_cpu_ns, late_ns);
}

/* The clock of a process that is gone may have been read long ago. */
static void clock_conclude(struct run *run)
{
    const struct session *session = run->session;
    uint64_t first_ns = first_clock_process_ns(&session->first_clock);
    uint64_t least_ns = run->collector.longest_ns;
    if (first_ns > least_ns + session->cpu_at_start_ns + run->paused_cpu_ns)
        least_ns = first_ns - session->cpu_at_start_ns - run->paused_cpu_ns;
    if (run->app_cpu_ns < least_ns && !run->collector.paused)
        run->app_cpu_ns = least_ns;
    if (session_app_cpu_ns(session) != 0)
        return;
    /* It was reaped: what was read before may be old. It is not to say that the process is too
     * short for a file, nor less than the samples weigh. */
    if (run->app_cpu_ns < session->period_ns)
        run->app_cpu_ns = 0;
    else if (run->app_cpu_ns < run->collector.profile.weight_ns)
        run->app_cpu_ns = run->collector.profile.weight_ns;
}

static bool is_ended_by_seccomp(const struct session *session)
{
    return session_is_hushed(session) && session_ends_at_seccomp(session);
}

/* One turn. False when it was the last. */
static bool turn(struct run *run)
{
    struct session *session = run->session;
    struct collector *collector = &run->collector;
    bool last = __atomic_load_n(&session->finish_wanted, __ATOMIC_ACQUIRE) != 0 ||
                helper_app_is_gone(&session->helper);
    requests_take(&run->requests, &session->helper);
    uint32_t snapshots = __atomic_load_n(&session->helper.snapshots_wanted, __ATOMIC_ACQUIRE);
    struct quiet_patience fork_patience = patience(session);
    last |= is_ended_by_seccomp(session);
    helper_beat(&session->helper);
    if (last)
        helper_last_work(&session->helper);
    quiet_begin(&session->quiet, &fork_patience);
    /* The time before the mailbox: what a thread posts comes before the record of its end. */
    bool execed = collector_look(collector, last);
    uint64_t until_ns = last || execed ? UINT64_MAX : sys_clock_ns(CLOCK_MONOTONIC);
    collector_take_births(collector, &session->mailbox);
    if (threads_busy(&collector->threads) >= THREADS_MANY)
        helper_leave_session(&session->helper);
    perf_map_get_on(run);
    collector_drain(collector, until_ns);
    collector->exec_seen |= execed;
    if (!collector->exec_seen)
        pause_apply(run);
    follower_look(&run->follower, last);
    if (!last && !collector->exec_seen)
        housekeeping_do(&run->house, &session->mailbox);
    quiet_end(&session->quiet);
    if (!collector->exec_seen)
        clock_read(run);
    if (!collector->exec_seen && !last)
        accounts_book_ends(&run->house.accounts, run->app_cpu_ns);
    threads_judge_churn(&collector->threads, sys_clock_ns(CLOCK_MONOTONIC), run->app_cpu_ns);
    __atomic_store_n(&session->birth_ring_bytes,
                     (uint32_t)threads_birth_ring_bytes(&collector->threads), __ATOMIC_RELAXED);
    __atomic_store_n(&session->births_one_in, collector->threads.births_one_in, __ATOMIC_RELAXED);
    if (run->house.settling_refused)
        __atomic_store_n(&session->born_unsettled, 1, __ATOMIC_RELAXED);
    session->lateness.noted = collector->lateness.noted;
    __atomic_store_n(&session->lateness.ns, collector->lateness.ns, __ATOMIC_RELAXED);
    __atomic_add_fetch(&session->progress, 1, __ATOMIC_RELAXED);
    last |= collector->exec_seen;
    if (!last) {
        snapshots_take(run, snapshots);
        look_take(run);
        checkpoint_if_due(run);
        publisher_keep_told(&run->publisher);
    }
    return !last;
}

/* A birth sees sleeps_long and wakes us, or came before it was set and is seen here. */
static void sleep_if_idle(struct session *session, uint32_t wakes, uint64_t ns)
{
    __atomic_store_n(&session->sleeps_long, ns > SLEEP_NS_YOUNG, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&session->mailbox.unread, __ATOMIC_SEQ_CST) == 0)
        helper_sleep(&session->helper, wakes, ns);
    __atomic_store_n(&session->sleeps_long, 0, __ATOMIC_RELAXED);
}

/* The app goes on without us: all that is ours in its memory goes. */
static void run_release(struct run *run)
{
    struct session *session = run->session;
    struct quiet_patience fork_patience = patience(session);
    quiet_begin(&session->quiet, &fork_patience);
    if (session->library.address_space != NULL)
        unwind_library_forget(&session->library);
    quiet_end(&session->quiet);
    collector_close(&run->collector);
    publisher_close(&run->publisher);
    arena_destroy(&run->arena);
}

/* Its frame is large; the nap, which is all of many a life, has none of it. In memory of the
 * helper's, which a fork does not copy. */
static __attribute__((noinline)) void session_live(struct session *session)
{
    struct run run = {0};
    helper_settle(&session->helper);
    if (mailbox_used(&session->mailbox) >= THREADS_MANY) /* it has made so many in its first ms */
        helper_leave_session(&session->helper);
    if (!run_init(&run, session)) {
        publisher_fail(&run.publisher, -ENOMEM);
        return;
    }
    follower_init(&run.follower, &run.publisher, &run.house);
    pause_apply(&run); /* a forked child is born paused if its parent is */
    bool filtered = false;
    for (;;) {
        uint32_t wakes = helper_wakes(&session->helper);
        if (!turn(&run))
            break;
        /* Takes 0.1 ms, which a program that has ended by now need not wait for. Where the kernel
         * has no filters the helper goes without, as does a thread of the app: one that has another
         * filter than the rest keeps the app from giving all its threads one. */
        if (!filtered && session->helper.kind == HELPER_APART)
            seccomp_filter_install();
        filtered = true;
        uint64_t ns = sleep_ns(&run);
        kernel_symbols_get_on(&run, ns);
        sleep_if_idle(session, wakes, ns);
    }
    helper_last_work(&session->helper);
    books_close(&run);
    clock_conclude(&run);
    perf_map_finish(&run);
    publisher_finish(&run.publisher, run.app_cpu_ns);
    if (__atomic_load_n(&session->finish_wanted, __ATOMIC_ACQUIRE) == SESSION_STOPS ||
        is_ended_by_seccomp(session))
        run_release(&run);
    __atomic_store_n(&session->progress, SESSION_DONE, __ATOMIC_RELEASE);
}

void session_run(void *context)
{
    struct session *session = context;
    if (!nap_until_asked(session)) {
        session_live(session);
        return;
    }
    session->finish_result = -ENODATA;
    __atomic_store_n(&session->progress, SESSION_DONE, __ATOMIC_RELEASE);
}
