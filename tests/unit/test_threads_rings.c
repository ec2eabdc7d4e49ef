/* threads: how their events are shaped and replaced, and the memory that they may have. */
#include "threads.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "record.h"
#include "threads_fixture.h"

static bool is_power_of_two(uint64_t value)
{
    return value != 0 && (value & (value - 1)) == 0;
}

TEST(settled_rings_fit_the_budget)
{
    static const uint32_t counts[] = {1, 4, 5, 16, 100, 200, 1000};
    static const uint64_t budgets[] = {600u * 1024, 8 * MIB, 64 * MIB};
    for (unsigned b = 0; b < 3; b++)
        for (unsigned c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct event_shape shape;
            struct threads threads = table(budgets[b]);
            struct thread *thread = settled(&threads, counts[c], &shape);
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

/* A compiler of an ordinary user's, on a busy machine: it has 15 ms until half of its ring is full,
 * with the largest copies. */
TEST(one_thread_alone_has_room_for_a_late_helper)
{
    struct event_shape shape;
    struct threads threads = table(8 * MIB + 516 * 1024);
    struct thread *thread = settled(&threads, 1, &shape);
    shape.stack_bytes = EVENT_STACK_BYTES_MAX;
    CHECK(shape.ring_bytes / event_record_bytes(&shape) >= 30);
    CHECK(4 * shape.ring_bytes <= 8 * MIB); /* and one that replaces it, and those of births */
    event_close(&thread->event);
}

/* A server's threads that wait for work, with the rings of their births. */
TEST(idle_threads_leave_their_part_to_the_busy)
{
    static char ring[64 * 1024 + EVENT_PAGE_BYTES];
    struct event_shape alone, among_idle, among_busy;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 1, &alone), *others[7];
    event_close(&thread->event);
    for (unsigned i = 0; i < 7; i++) {
        others[i] = admit(&threads, (pid_t)(1000000 + i), NOW_NS);
        others[i]->event = (struct event){.fd = -1, .mapping = ring, .mapping_bytes = sizeof ring};
    }
    threads_note_idle(&threads);
    CHECK_U64(threads.idle, 7);
    CHECK_U64(threads.idle_bytes, 7 * sizeof ring);
    struct event event;
    REQUIRE(thread_open_settled(&threads, thread, &event, &among_idle) == 0);
    thread_replace(&threads, thread, &event, &among_idle, 0);
    CHECK_U64(among_idle.ring_bytes, alone.ring_bytes);
    CHECK(!thread_is_misfit(&threads, thread));
    for (unsigned i = 0; i < 7; i++)
        others[i]->sampled = true;
    threads_note_idle(&threads);
    CHECK_U64(threads.idle, 0);
    CHECK(thread_is_misfit(&threads, thread));
    REQUIRE(thread_open_settled(&threads, thread, &event, &among_busy) == 0);
    CHECK(among_busy.ring_bytes < alone.ring_bytes);
    CHECK(8 * among_busy.ring_bytes <= 8 * MIB);
    event_close(&thread->event);
    event_close(&event);
}

/* The aim of the design: 200 threads within 8 MiB of locked memory, that of an ordinary user. */
TEST(two_hundred_threads_have_stacks_of_use)
{
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 200, &shape);
    CHECK((shape.ring_bytes + EVENT_PAGE_BYTES) * 200 <= 8 * MIB);
    CHECK(shape.stack_bytes > 7000);
    event_close(&thread->event);
}

TEST(a_wanted_stack_copy_is_kept_where_it_fits)
{
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    threads.plan.stack_bytes = 8192;
    struct thread *thread = settled(&threads, 1, &shape);
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
    thread_replace(threads, thread, &event, &shape, 0);
}

TEST(shallow_stacks_get_smaller_copies_and_rings)
{
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
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
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
    note(thread, 1, shape.stack_bytes / 4, 0);
    note(thread, 5000, 1000, 20 * SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(a_settled_event_takes_over)
{
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct event first;
    events_or_skip();
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
    thread_replace(&threads, thread, &event, &shape, 0);
    CHECK(fcntl(first.fd, F_GETFD) == -1 && errno == EBADF);
    CHECK(thread->settled && !thread->period_is_new);
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
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 2, &shape);
    CHECK(!thread_is_misfit(&threads, thread));
    for (pid_t i = 0; i < 100; i++)
        admit(&threads, 2000000 + i, NOW_NS);
    CHECK(thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

/* And soon, since copies cost the more; but it is seen as soon as before when they grow again. */
TEST(fast_samples_of_shallow_stacks_get_still_smaller_copies)
{
    struct event_shape shape;
    struct threads threads = table(64 * MIB);
    threads.plan.period_ns = 100000;
    struct thread *thread = settled(&threads, 1, &shape);
    REQUIRE(shape.stack_bytes == 16384);
    /* In periods, which are drawn anew for each event. */
    uint64_t patience = threads_patience_ns(&threads) / thread->period_ns;
    note(thread, 1900, 3000, SECOND_NS * 19 / 100);
    CHECK(!thread_is_misfit(&threads, thread)); /* too short a time */
    note(thread, 100, 3000, SECOND_NS / 100);
    REQUIRE(thread_is_misfit(&threads, thread));
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, 6 * 1024);
    CHECK(threads_patience_ns(&threads) / thread->period_ns <= patience * 5 / 4);
    thread->wants_more_stack = true;
    REQUIRE(thread_is_misfit(&threads, thread));
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, 24 * 1024);
    note(thread, 10000, 100, SECOND_NS);
    CHECK(!thread_is_misfit(&threads, thread)); /* eight times as long */
    note(thread, 6000, 100, SECOND_NS * 6 / 10);
    REQUIRE(thread_is_misfit(&threads, thread));
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, 4096);
    thread->wants_more_stack = true;
    refit(&threads, thread);
    CHECK_U64(thread->stack_bytes, 16384);
    event_close(&thread->event);
}

TEST(cut_stacks_ask_for_a_larger_copy_once)
{
    struct event_shape shape, larger;
    struct event event;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 2, &shape);
    thread->wants_more_stack = true;
    REQUIRE(thread_is_misfit(&threads, thread));
    REQUIRE(thread_open_settled(&threads, thread, &event, &larger) == 0);
    CHECK(larger.stack_bytes > shape.stack_bytes);
    thread_replace(&threads, thread, &event, &larger, 0);
    thread->wants_more_stack = true;
    CHECK(!thread_is_misfit(&threads, thread));
    event_close(&thread->event);
}

TEST(stacks_that_the_first_copy_cut_get_a_large_one_at_once)
{
    static const struct {
        uint32_t first, settled;
    } cases[] = {{15872, 4 * 15872}, {6000, 32768}, {17000, EVENT_STACK_BYTES_MAX}};
    struct threads threads = table(8 * MIB);
    threads.live = 4;
    events_or_skip();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct thread thread = {.tid = getpid(), .stack_bytes = cases[i].first};
        struct event_shape shape;
        struct event event;
        thread.wants_more_stack = true;
        REQUIRE(thread_open_settled(&threads, &thread, &event, &shape) == 0);
        CHECK_U64(shape.stack_bytes, cases[i].settled);
        event_close(&event);
    }
}

/* What a copy costs counts as often as there are samples. */
TEST(copies_of_fast_samples_are_small_until_one_is_cut)
{
    static const struct {
        uint64_t period_ns;
        bool is_cut;
        uint32_t settled;
    } cases[] = {{1000000, false, 49152}, {100000, false, 16384}, {100000, true, 4 * 15872}};
    struct threads threads = table(64 * MIB);
    events_or_skip();
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct thread thread = {
            .tid = getpid(), .stack_bytes = 15872, .wants_more_stack = cases[i].is_cut};
        struct event_shape shape;
        struct event event;
        threads.plan.period_ns = cases[i].period_ns;
        REQUIRE(thread_open_settled(&threads, &thread, &event, &shape) == 0);
        CHECK_U64(shape.stack_bytes, cases[i].settled);
        event_close(&event);
    }
}

/* Its mapping keeps it; what needs a descriptor does nothing then. */
TEST(an_event_goes_without_one_of_the_last_descriptors)
{
    struct rlimit before, few;
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    events_or_skip();
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    int lowest_fd = dup(0);
    REQUIRE(lowest_fd >= 0);
    close(lowest_fd);
    few = before;
    few.rlim_cur = (rlim_t)lowest_fd + 1;
    setrlimit(RLIMIT_NOFILE, &few);
    struct thread *thread = settled(&threads, 1, &shape);
    refit(&threads, thread);
    int fd = dup(0);
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK_I64(fd, lowest_fd);
    close(fd);
    CHECK(thread->settled && thread->event.mapping != NULL);
    CHECK_I64(thread->event.fd, -1);
    uint64_t period_ns = thread->period_ns;
    thread->samples_since_draw = 1000;
    thread_redraw_period(&threads, thread);
    thread_silence(thread);
    thread_unsilence(&threads, thread);
    CHECK_U64(thread->period_ns, period_ns);
    event_close(&thread->event);
}

TEST(a_thread_that_has_ended_cannot_be_settled)
{
    struct event event;
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    events_or_skip();
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    struct thread *thread = admit(&threads, child, NOW_NS);
    CHECK_I64(thread_open_settled(&threads, thread, &event, &shape), -ESRCH);
    CHECK(event.mapping == NULL);
}

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
    threads_judge_churn(&threads, NOW_NS, 0);
    CHECK_U64(threads_birth_ring_bytes(&threads), 65536);
    for (pid_t i = 0; i < 200; i++)
        threads_retire(&threads, admit(&threads, i + 1, NOW_NS));
    threads_judge_churn(&threads, NOW_NS + SECOND_NS / 10, 0);
    CHECK(threads.churns);
    CHECK_U64(threads.births_one_in, 8); /* 2000 a second, 250 of which are worth an event */
    CHECK(threads_birth_ring_bytes(&threads) < 65536);
    for (pid_t i = 0; i < 200; i++) /* these live on */
        admit(&threads, 1000 + i, NOW_NS);
    threads_judge_churn(&threads, NOW_NS + SECOND_NS / 5, 0);
    CHECK(threads.churns);
    CHECK_U64(threads.births_one_in, 1);
    for (pid_t i = 0; i < 200; i++)
        threads_retire(&threads, threads_find(&threads, 1000 + i));
    threads_judge_churn(&threads, NOW_NS + 3 * SECOND_NS / 2, 0);
    CHECK(!threads.churns);
    CHECK_U64(threads.births_one_in, 1);
    /* One that a scan found at its end is taken off the number of threads again. */
    threads_retire(&threads, threads_admit_scanned(&threads, 0x7ffffff, NOW_NS));
    threads_judge_churn(&threads, NOW_NS + 2 * SECOND_NS, 0);
    CHECK(!threads.churns);
    threads_admit_scanned(&threads, 0x7ffffff, NOW_NS);
    threads_judge_churn(&threads, NOW_NS + 3 * SECOND_NS, 0);
    threads_retire(&threads, threads_find(&threads, 0x7ffffff));
    threads_judge_churn(&threads, NOW_NS + 4 * SECOND_NS, 0);
    CHECK(!threads.churns);
}

/* A busy machine, or threads that wait: what matters is how much of their time births would take.
 */
TEST(births_are_thinned_by_the_time_that_the_process_uses)
{
    struct threads threads = table(64 * MIB);
    uint64_t cpu_ns = 7 * SECOND_NS, now_ns = NOW_NS;
    threads_judge_churn(&threads, now_ns, cpu_ns);
    for (pid_t i = 0; i < 40; i++)
        threads_retire(&threads, admit(&threads, i + 1, now_ns));
    threads_judge_churn(&threads, now_ns + SECOND_NS / 1000, cpu_ns); /* too soon to tell */
    CHECK_U64(threads.births_one_in, 1);
    threads_judge_churn(&threads, now_ns += SECOND_NS / 100, cpu_ns += SECOND_NS / 200);
    CHECK_U64(threads.births_one_in, 32); /* 8000 in a second of its time */
    for (pid_t i = 0; i < 40; i++)
        threads_retire(&threads, admit(&threads, i + 1, now_ns));
    threads_judge_churn(&threads, now_ns += SECOND_NS / 10, cpu_ns += SECOND_NS / 10);
    CHECK_U64(threads.births_one_in, 1); /* 400 */
    for (pid_t i = 0; i < 40; i++)
        threads_retire(&threads, admit(&threads, i + 1, now_ns));
    threads_judge_churn(&threads, now_ns += SECOND_NS, cpu_ns += SECOND_NS / 1000);
    CHECK_U64(threads.births_one_in, 1); /* 40,000, but there are hardly any */
}

/* Samples of 4 KiB: 16 of them fill a ring of 64 KiB, and half of it lasts 8 periods. */
TEST(patience_is_half_of_the_shortest_ring)
{
    struct threads threads = table(8 * MIB);
    CHECK_U64(threads_patience_ns(&threads), UINT64_MAX);
    for (pid_t i = 1; i <= 3; i++) {
        struct thread *thread = admit(&threads, i, NOW_NS);
        thread->settled = true;
        thread->event.mapping = &arena; /* any */
        thread->event.mapping_bytes = EVENT_PAGE_BYTES + (65536u << (i - 1));
        thread->stack_bytes = 4096 - RECORD_SAMPLE_FIXED_BYTES;
        thread->period_ns = PERIOD_NS;
    }
    CHECK_U64(threads_patience_ns(&threads), 8 * PERIOD_NS);
    threads_at(&threads, 2)->period_ns = PERIOD_NS / 8;
    CHECK_U64(threads_patience_ns(&threads), 4 * PERIOD_NS);
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
