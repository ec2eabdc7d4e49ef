/* threads: the table of threads: births, scans, ends. */
#include "threads.h"

#include <errno.h>
#include <sys/prctl.h>

#include "check.h"
#include "profile.h"
#include "threads_fixture.h"

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

/* The mailbox was full: whom a scan has found is not missing. */
TEST(those_that_nobody_told_of)
{
    struct threads threads = table(8 * MIB);
    struct thread *thread = threads_admit_scanned(&threads, 0x7ffffff, NOW_NS);
    thread->event.mapping = &threads; /* the helper has opened one */
    thread_count_uncovered(&threads, thread);
    CHECK_U64(threads.uncovered, 0);
    CHECK_U64(threads_uncovered(&threads, 0), 0);
    CHECK_U64(threads_uncovered(&threads, 1), 0);
    CHECK_U64(threads_uncovered(&threads, 5), 4);
    threads.uncovered = 3;
    CHECK_U64(threads_uncovered(&threads, 5), 7);
}

TEST(periods_are_drawn_anew_now_and_then)
{
    struct event_shape shape;
    struct threads threads = table(8 * MIB);
    struct thread *thread = settled(&threads, 1, &shape);
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

TEST(names)
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
}
