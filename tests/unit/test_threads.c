/* threads: the table of threads, and how their events are shaped and replaced. */
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "profile.h"

#define PERIOD_NS 1000000u
#define SECOND_NS 1000000000ull
#define NOW_NS    (5 * SECOND_NS)
#define MIB       (1024u * 1024)

static struct arena arena;
static struct event_traits traits;

static struct threads table(uint64_t budget_bytes)
{
    struct threads threads;
    struct threads_plan plan = {.traits = &traits,
                                .period_ns = PERIOD_NS,
                                .budget_bytes = budget_bytes,
                                .app_pid = getpid()};
    arena_destroy(&arena);
    REQUIRE(threads_init(&threads, &plan, &arena) == 0);
    return threads;
}

/* A birth without an event. */
static struct birth birth_of(pid_t tid)
{
    return (struct birth){.tid = tid,
                          .event.fd = -1,
                          .refusal = -EPERM,
                          .period_ns = 777,
                          .stack_bytes = 4096,
                          .cpu_ns = 55,
                          .name = "born"};
}

static struct thread *admit(struct threads *threads, pid_t tid, uint64_t now_ns)
{
    struct birth birth = birth_of(tid);
    return threads_admit(threads, &birth, now_ns);
}

TEST(a_birth_is_admitted_and_retired)
{
    struct threads threads = table(8 * MIB);
    struct thread *thread = admit(&threads, 100, NOW_NS);
    REQUIRE(thread != NULL);
    CHECK_I64(thread->tid, 100);
    CHECK_STR(thread->name, "born");
    CHECK_U64(thread->period_ns, 777);
    CHECK_U64(thread->stack_bytes, 4096);
    CHECK_U64(thread->birth_cpu_ns, 55);
    CHECK_U64(thread->last_node, PROFILE_NONE);
    CHECK_U64(thread->seen_ns, NOW_NS);
    CHECK(!thread->settled && !thread->dead && !thread->scanned);
    CHECK(threads_find(&threads, 100) == thread);
    CHECK(threads_find(&threads, 101) == NULL);
    CHECK_U64(threads.live, 1);
    threads_retire(&threads, thread);
    CHECK(threads_find(&threads, 100) == NULL);
    CHECK_U64(threads.live, 0);
    CHECK_U64(threads.used, 0);
    CHECK_U64(threads.total, 1);
    CHECK_U64(threads.uncovered, 1); /* it never had an event */
}

/* Another library's wrapper of the thread's function; libc alone needs a few us. */
TEST(what_ran_before_the_event_is_owed)
{
    struct threads threads = table(8 * MIB);
    struct birth birth = birth_of(100);
    birth.before_ns = PERIOD_NS;
    struct thread *thread = threads_admit(&threads, &birth, NOW_NS);
    REQUIRE(thread != NULL);
    CHECK_U64(thread->owed_ns, 0);
    birth = birth_of(101);
    birth.before_ns = 50 * PERIOD_NS;
    thread = threads_admit(&threads, &birth, NOW_NS);
    REQUIRE(thread != NULL);
    CHECK_U64(thread->owed_ns, 50 * PERIOD_NS);
}

TEST(entries_are_used_again)
{
    struct threads threads = table(8 * MIB);
    struct thread *one = admit(&threads, 1, NOW_NS), *two = admit(&threads, 2, NOW_NS);
    two->weight_ns = 5;
    admit(&threads, 3, NOW_NS);
    threads_retire(&threads, two);
    CHECK_U64(threads.used, 3);
    struct thread *four = admit(&threads, 4, NOW_NS);
    CHECK(four == two);
    CHECK_U64(four->weight_ns, 0);
    threads_retire(&threads, threads_find(&threads, 3));
    CHECK_U64(threads.used, 2);
    threads_retire(&threads, four);
    threads_retire(&threads, one);
    CHECK_U64(threads.used, 0);
    CHECK_U64(threads.total, 4);
}

/* The record of the first one's end was lost, and the kernel has given its number to another. */
TEST(an_id_that_comes_again)
{
    struct threads threads = table(8 * MIB);
    struct thread *first = admit(&threads, 100, NOW_NS);
    struct thread *second = admit(&threads, 100, NOW_NS + 1);
    REQUIRE(second != NULL && second != first);
    CHECK(first->dead && !second->dead);
    CHECK(threads_find(&threads, 100) == second);
    CHECK_U64(threads.live, 2);
    CHECK_U64(threads.total, 2);
}

TEST(a_scan_may_be_earlier_than_the_post)
{
    struct threads threads = table(8 * MIB);
    struct thread *scanned = threads_admit_scanned(&threads, getpid(), NOW_NS);
    REQUIRE(scanned != NULL && scanned->scanned);
    CHECK(scanned->name[0] != '\0');
    struct thread *born = admit(&threads, getpid(), NOW_NS + 1000000);
    CHECK(born == scanned);
    CHECK(!born->scanned);
    CHECK_STR(born->name, "born");
    CHECK_U64(threads.total, 1);
    CHECK_U64(threads.live, 1);
}

TEST(a_scan_long_ago_was_of_another_thread)
{
    struct threads threads = table(8 * MIB);
    struct thread *scanned = threads_admit_scanned(&threads, 100, NOW_NS);
    struct thread *born = admit(&threads, 100, NOW_NS + 60 * SECOND_NS);
    CHECK(born != scanned);
    CHECK(scanned->dead);
}

/* It was known by its birth, or had no time for an event: no thread of the statistics. */
TEST(a_thread_found_at_its_very_end)
{
    struct threads threads = table(8 * MIB);
    struct thread *thread = threads_admit_scanned(&threads, 0x7ffffff, NOW_NS);
    CHECK_STR(thread->name, "");
    threads_retire(&threads, thread);
    CHECK_U64(threads.total, 0);
    CHECK_U64(threads.uncovered, 0);
    thread = threads_admit_scanned(&threads, 0x7ffffff, NOW_NS);
    thread->refused = true;
    threads_retire(&threads, thread);
    CHECK_U64(threads.total, 1);
    CHECK_U64(threads.uncovered, 1);
}

TEST(a_full_table_counts_what_it_refuses)
{
    struct threads threads = table(8 * MIB);
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        REQUIRE(admit(&threads, (pid_t)i + 1, NOW_NS) != NULL);
    CHECK(admit(&threads, 100000, NOW_NS) == NULL);
    CHECK(threads_admit_scanned(&threads, 100001, NOW_NS) == NULL);
    CHECK_U64(threads.uncovered, 2);
    CHECK_U64(threads.live, THREADS_MAX);
    threads_retire(&threads, threads_at(&threads, 77));
    CHECK(admit(&threads, 100000, NOW_NS) == threads_at(&threads, 77));
}

TEST(no_memory_no_table)
{
    struct threads threads;
    struct threads_plan plan = {.traits = &traits, .period_ns = PERIOD_NS};
    arena_destroy(&arena);
    arena.fail_countdown = 1;
    CHECK_I64(threads_init(&threads, &plan, &arena), -ENOMEM);
    arena.fail_countdown = 0;
}

/* ---- with events ---- */

static void events_or_skip(void)
{
    if (event_probe(&traits, false) != 0)
        SKIP("the kernel refuses perf_event_open");
}

static void burn(uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    uint64_t end_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec + ns;
    do {
        for (unsigned i = 0; i < 20000; i++)
            __asm__ volatile("");
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec < end_ns);
}

/* This thread, settled in a table of COUNT live threads. */
static struct thread *settled(struct threads *threads, uint32_t count, struct event_shape *shape)
{
    struct event event;
    struct thread *thread = admit(threads, getpid(), NOW_NS);
    for (uint32_t i = 1; i < count; i++)
        admit(threads, (pid_t)(1000000 + i), NOW_NS);
    int result = thread_open_settled(threads, thread, &event, shape);
    if (result != 0)
        return NULL;
    CHECK_U64(event.mapping_bytes, shape->ring_bytes + EVENT_PAGE_BYTES);
    thread_replace(thread, &event, shape, 0);
    return thread;
}

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

TEST(settled_rings_fit_the_budget)
{
    static const uint32_t counts[] = {1, 4, 5, 16, 100, 200, 1000};
    static const uint64_t budgets[] = {600u * 1024, 8 * MIB, 64 * MIB};
    events_or_skip();
    for (unsigned b = 0; b < 3; b++)
        for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct event_shape shape;
            struct threads threads = table(budgets[b]);
            struct thread *thread = settled(&threads, counts[c], &shape);
            REQUIRE(thread != NULL);
            CHECK(is_power_of_two(shape.ring_bytes));
            CHECK(shape.ring_bytes >= 32768 && shape.ring_bytes <= 4 * MIB);
            CHECK(shape.ring_bytes == 32768 || shape.ring_bytes * counts[c] <= budgets[b] / 8 * 7);
            CHECK(4 * event_record_bytes(&shape) <= shape.ring_bytes);
            CHECK_U64(shape.stack_bytes % 8, 0);
            CHECK(shape.stack_bytes >= 4096);
            CHECK(shape.period_ns >= PERIOD_NS / 4 * 3 && shape.period_ns <= PERIOD_NS / 4 * 5);
            CHECK(!thread_is_misfit(&threads, thread));
            event_close(&thread->event);
        }
}

/* The aim of the design: 200 threads within 8 MiB of locked memory, that of an ordinary user. */
TEST(two_hundred_threads_have_stacks_of_use)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 200, &shape);
    REQUIRE(thread != NULL);
    CHECK((shape.ring_bytes + EVENT_PAGE_BYTES) * 200 <= 8 * MIB);
    CHECK(shape.stack_bytes > 7000);
    event_close(&thread->event);
}

TEST(a_wanted_stack_copy_is_kept_where_it_fits)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    threads.plan.stack_bytes = 8192;
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(thread != NULL);
    CHECK_U64(shape.stack_bytes, 8192);
    thread->wants_more_stack = true;
    CHECK(!thread_is_misfit(&threads, thread)); /* the user has said how much */
    event_close(&thread->event);
}

/* SAMPLES that needed BYTES, in NS of the thread's time. */
static void note(struct thread *thread, unsigned samples, size_t bytes, uint64_t ns)
{
    for (unsigned i = 0; i < samples; i++)
        thread_note_need(thread, bytes);
    thread->count_ns += ns;
}

static void refit(struct threads *threads, struct thread *thread)
{
    struct event_shape shape;
    struct event event;
    REQUIRE(thread_open_settled(threads, thread, &event, &shape) == 0);
    thread_replace(thread, &event, &shape, 0);
}

TEST(shallow_stacks_get_smaller_copies_and_rings)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(thread != NULL);
    note(thread, 400, 1000, 20 * SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread)); /* too few samples */
    note(thread, 200, 1000, 0);
    REQUIRE(thread_is_misfit(&threads, thread));
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, 16384);
    CHECK(thread->event.mapping_bytes <= shape.ring_bytes / 2 + EVENT_PAGE_BYTES);
    CHECK(!thread_is_misfit(&threads, thread));
    refit(&threads, thread); /* for whatever reason */
    CHECK_U64(thread->stack_bytes, 16384);
    thread->wants_more_stack = true; /* it got deeper after all */
    REQUIRE(thread_is_misfit(&threads, thread));
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, EVENT_STACK_BYTES_MAX);
    note(thread, 600, 1000, 20 * SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread)); /* that was once too often to be quick about it */
    note(thread, 1, 1000, 70 * SECOND_NS);
    CHECK(thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

/* What is cut until the copy has grown again must be little of the thread's time. */
TEST(shallow_stacks_keep_the_copy_at_first)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(thread != NULL);
    note(thread, 9000, 1000, 9 * SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread));
    note(thread, 2000, 1000, 2 * SECOND_NS);
    CHECK(thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(one_deep_stack_keeps_the_copy)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(thread != NULL);
    note(thread, 1, shape.stack_bytes / 4, 0);
    note(thread, 5000, 1000, 20 * SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(a_settled_event_takes_over)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct event first;
    const struct event_shape small = {
        .period_ns = PERIOD_NS / 2, .stack_bytes = 1024, .ring_bytes = 32768};
    REQUIRE(event_open(&first, &traits, &small, 0) == 0);
    struct birth birth = birth_of(getpid());
    birth.event = first;
    struct thread *thread = threads_admit(&threads, &birth, NOW_NS);
    CHECK(thread->ring.control == first.mapping);
    CHECK_U64(thread->ring.size, 32768);
    CHECK(thread_is_misfit(&threads, thread));
    thread->count_ns = 12345;
    struct event event;
    REQUIRE(thread_open_settled(&threads, thread, &event, &shape) == 0);
    thread_replace(thread, &event, &shape, 0);
    CHECK(fcntl(first.fd, F_GETFD) == -1 && errno == EBADF);
    CHECK(thread->settled && thread->period_is_new);
    CHECK_U64(thread->count_ns, 0);
    CHECK_U64(thread->period_ns, shape.period_ns);
    CHECK_U64(thread->stack_bytes, shape.stack_bytes);
    CHECK(thread->ring.control == event.mapping);
    burn(5 * PERIOD_NS);
    CHECK(ring_has_data(&thread->ring));
    /* A birth that is posted now comes too late: its event is closed, its name looked up. */
    REQUIRE(event_open(&first, &traits, &small, 0) == 0);
    birth.event = first;
    thread->scanned = true;
    CHECK(threads_admit(&threads, &birth, NOW_NS) == thread);
    CHECK(fcntl(first.fd, F_GETFD) == -1 && errno == EBADF);
    CHECK(strcmp(thread->name, "born") != 0);
    CHECK(thread->ring.control == event.mapping);
    threads_retire(&threads, thread);
    CHECK(fcntl(event.fd, F_GETFD) == -1 && errno == EBADF);
    CHECK_U64(threads.uncovered, 0);
}

TEST(a_ring_is_a_misfit_once_there_are_many_threads)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 2, &shape);
    REQUIRE(thread != NULL);
    CHECK(!thread_is_misfit(&threads, thread));
    for (pid_t i = 0; i < 100; i++)
        admit(&threads, 2000000 + i, NOW_NS);
    CHECK(thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(cut_stacks_ask_for_a_larger_copy_once)
{
    events_or_skip();
    struct event_shape shape, larger;
    struct event event;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 2, &shape);
    REQUIRE(thread != NULL);
    thread->wants_more_stack = true;
    REQUIRE(thread_is_misfit(&threads, thread));
    REQUIRE(thread_open_settled(&threads, thread, &event, &larger) == 0);
    CHECK(larger.stack_bytes > shape.stack_bytes);
    thread_replace(thread, &event, &larger, 0);
    thread->wants_more_stack = true;
    CHECK(!thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(a_thread_that_has_ended_cannot_be_settled)
{
    events_or_skip();
    struct event event;
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    struct thread *thread = admit(&threads, child, NOW_NS);
    CHECK_I64(thread_open_settled(&threads, thread, &event, &shape), -ESRCH);
    CHECK(event.mapping == NULL);
}

TEST(periods_are_drawn_anew_now_and_then)
{
    events_or_skip();
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(thread != NULL);
    thread->period_is_new = false;
    uint64_t least = UINT64_MAX, most = 0, draws = 0;
    for (unsigned i = 0; i < 100000; i++) {
        thread->samples_since_draw++;
        thread_redraw_period(&threads, thread);
        if (!thread->period_is_new)
            continue;
        CHECK_U64(thread->samples_since_draw, 0);
        thread->period_is_new = false;
        least = thread->period_ns < least ? thread->period_ns : least;
        most = thread->period_ns > most ? thread->period_ns : most;
        draws++;
    }
    CHECK(draws > 500 && draws < 10000);
    CHECK(least >= PERIOD_NS / 100 * 75 && least < PERIOD_NS / 100 * 77);
    CHECK(most <= PERIOD_NS / 100 * 125 && most > PERIOD_NS / 100 * 123);
    event_close(&thread->event);
}

/* Its clock says 5 ms, its event has counted 8. */
TEST(what_was_stolen_is_told_once)
{
    struct threads threads = table(8 * MIB);
    struct thread *thread = admit(&threads, 100, NOW_NS);
    CHECK_U64(thread_stolen_ns(&threads, thread, 8000000, UINT64_MAX), 0); /* nothing is known */
    thread->base_cpu_ns = 1000;
    thread->end_cpu_ns = 5001000;
    CHECK_U64(thread_stolen_ns(&threads, thread, 4000000, UINT64_MAX), 0);
    CHECK_U64(thread_stolen_ns(&threads, thread, 8000000, 1000000), 1000000);
    CHECK_U64(thread_stolen_ns(&threads, thread, 8000000, UINT64_MAX), 2000000);
    CHECK_U64(thread_stolen_ns(&threads, thread, 8000000, UINT64_MAX), 0);
}

/* ---- what births may map, and how long the rings last ---- */

TEST(those_who_are_born_find_memory_left)
{
    for (uint64_t budget = 0; budget < 12 * MIB; budget += 100000) {
        struct threads threads = table(budget);
        struct thread *thread = admit(&threads, 1, NOW_NS);
        thread->event.mapping_bytes = 300000; /* as if it had a ring */
        size_t bytes = threads_birth_ring_bytes(&threads);
        CHECK(is_power_of_two(bytes) && bytes >= 16384 && bytes <= 65536);
        uint64_t left = budget > 300000 ? budget - 300000 : 0;
        CHECK(bytes == 16384 || 64 * (bytes + EVENT_PAGE_BYTES) <= left);
        CHECK(bytes == 65536 || 64 * (2 * bytes + EVENT_PAGE_BYTES) > left);
        thread->event.mapping_bytes = 0;
    }
}

TEST(many_births_make_small_rings)
{
    struct threads threads = table(64 * MIB);
    threads_judge_churn(&threads, NOW_NS);
    CHECK_U64(threads_birth_ring_bytes(&threads), 65536);
    for (pid_t i = 0; i < 200; i++)
        threads_retire(&threads, admit(&threads, i + 1, NOW_NS));
    threads_judge_churn(&threads, NOW_NS + SECOND_NS / 10);
    CHECK(threads.churns);
    CHECK_U64(threads.births_one_in, 4); /* 2000 a second, 500 of which are worth an event */
    CHECK(threads_birth_ring_bytes(&threads) < 65536);
    for (pid_t i = 0; i < 200; i++) /* these live on */
        admit(&threads, 1000 + i, NOW_NS);
    threads_judge_churn(&threads, NOW_NS + SECOND_NS / 5);
    CHECK(threads.churns);
    CHECK_U64(threads.births_one_in, 1);
    for (pid_t i = 0; i < 200; i++)
        threads_retire(&threads, threads_find(&threads, 1000 + i));
    threads_judge_churn(&threads, NOW_NS + 3 * SECOND_NS / 2);
    CHECK(!threads.churns);
    CHECK_U64(threads.births_one_in, 1);
    /* One that a scan found at its end is taken off the number of threads again. */
    threads_retire(&threads, threads_admit_scanned(&threads, 0x7ffffff, NOW_NS));
    threads_judge_churn(&threads, NOW_NS + 2 * SECOND_NS);
    CHECK(!threads.churns);
    threads_admit_scanned(&threads, 0x7ffffff, NOW_NS);
    threads_judge_churn(&threads, NOW_NS + 3 * SECOND_NS);
    threads_retire(&threads, threads_find(&threads, 0x7ffffff));
    threads_judge_churn(&threads, NOW_NS + 4 * SECOND_NS);
    CHECK(!threads.churns);
}

/* 200 bytes and 3896 of stack: 16 samples fill a ring of 64 KiB, and half of it lasts 8 periods. */
TEST(patience_is_half_of_the_shortest_ring)
{
    struct threads threads = table(8 * MIB);
    CHECK_U64(threads_patience_ns(&threads), UINT64_MAX);
    for (pid_t i = 1; i <= 3; i++) {
        struct thread *thread = admit(&threads, i, NOW_NS);
        thread->settled = true;
        thread->event.mapping = &arena; /* any */
        thread->event.mapping_bytes = EVENT_PAGE_BYTES + 65536u * (unsigned)i;
        thread->stack_bytes = 3896;
        thread->period_ns = PERIOD_NS;
    }
    CHECK_U64(threads_patience_ns(&threads), 8 * PERIOD_NS);
    threads_at(&threads, 2)->period_ns = PERIOD_NS / 4;
    CHECK_U64(threads_patience_ns(&threads), 6 * PERIOD_NS);
}

/* ---- what /proc tells ---- */

TEST(names_and_clocks_of_threads)
{
    char old[16];
    struct thread thread = {.tid = getpid(), .text = 5};
    prctl(PR_GET_NAME, old);
    prctl(PR_SET_NAME, "fifteen letters");
    thread_refresh_name(getpid(), &thread);
    CHECK_STR(thread.name, "fifteen letters");
    CHECK_U64(thread.text, UINT32_MAX); /* the frame of its old name is not its own any more */
    prctl(PR_SET_NAME, "");
    thread_refresh_name(getpid(), &thread);
    CHECK_STR(thread.name, "");
    prctl(PR_SET_NAME, old);
    thread_rename(&thread, "a name that is too long");
    CHECK_STR(thread.name, "a name that is ");
    thread.tid = 0x7ffffff;
    thread_refresh_name(getpid(), &thread); /* it has ended: its last name stays */
    CHECK_STR(thread.name, "a name that is ");
    CHECK_U64(thread_read_cpu_ns(getpid(), 0x7ffffff), 0);
}

static void *sleep_after_work(void *tid)
{
    burn(20000000);
    __atomic_store_n((pid_t *)tid, (pid_t)syscall(SYS_gettid), __ATOMIC_RELEASE);
    pause();
    return NULL;
}

TEST(the_clock_of_a_thread_that_sleeps)
{
    pthread_t thread;
    pid_t tid = 0;
    struct timespec now;
    clockid_t clock;
    if (access("/proc/self/schedstat", R_OK) != 0)
        SKIP("no schedstat");
    REQUIRE(pthread_create(&thread, NULL, sleep_after_work, &tid) == 0);
    while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    usleep(20000);
    REQUIRE(pthread_getcpuclockid(thread, &clock) == 0 && clock_gettime(clock, &now) == 0);
    uint64_t expected_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
    uint64_t ns = thread_read_cpu_ns(getpid(), tid);
    CHECK(ns >= 19900000 && ns <= expected_ns + 100000);
    pthread_cancel(thread);
    pthread_join(thread, NULL);
}

TEST(the_budget_is_what_may_be_locked)
{
    struct rlimit limit;
    long granted_kb = 0, paranoid = 2;
    FILE *file = fopen("/proc/sys/kernel/perf_event_mlock_kb", "r");
    if (file == NULL || fscanf(file, "%ld", &granted_kb) != 1)
        SKIP("no perf_event_mlock_kb");
    fclose(file);
    file = fopen("/proc/sys/kernel/perf_event_paranoid", "r");
    REQUIRE(file != NULL && fscanf(file, "%ld", &paranoid) == 1);
    fclose(file);
    REQUIRE(getrlimit(RLIMIT_MEMLOCK, &limit) == 0);
    uint64_t expected = 64 * MIB;
    if (geteuid() != 0 && paranoid >= 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur + (uint64_t)granted_kb * 1024 < expected)
        expected = limit.rlim_cur + (uint64_t)granted_kb * 1024;
    CHECK_U64(threads_budget_bytes(geteuid() == 0), expected);
    CHECK_U64(threads_budget_bytes(true), 64 * MIB);
    const struct rlimit small = {MIB, limit.rlim_max};
    if (paranoid < 0 || granted_kb * 1024 > 60 * (long)MIB ||
        setrlimit(RLIMIT_MEMLOCK, &small) != 0)
        return;
    CHECK_U64(threads_budget_bytes(false), MIB + (uint64_t)granted_kb * 1024);
    setrlimit(RLIMIT_MEMLOCK, &limit);
}
