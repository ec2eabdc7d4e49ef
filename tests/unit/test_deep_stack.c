/* deep_stack: what a watch on a word of the stack proves, and what it costs. */
#include "deep_stack.h"

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static struct arena arena;
static struct deep_stack deep = {.watch = -1};
static volatile uint64_t words[2];
static const uint64_t callers[] = {11, 22, 33};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static pid_t tid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* Watches words[0], with the callers known. */
static void watch(void)
{
    if (!deep_stack_is_possible())
        SKIP("writes to watched words are not counted here");
    deep_stack_reset(&deep);
    REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[0]) == 0);
    REQUIRE(deep_stack_know(&deep, callers, 3, &arena) == 0);
}

TEST(what_is_not_written_is_known)
{
    watch();
    words[1]++; /* its neighbour */
    CHECK(deep_stack_holds(&deep, now_ns()));
    CHECK_U64(deep.count, 3);
    CHECK_MEM(deep.ips, callers, sizeof callers);
    CHECK(deep_stack_look(&deep));
    CHECK(deep_stack_holds(&deep, now_ns()));
    deep_stack_end(&deep);
}

TEST(what_was_written_is_not)
{
    watch();
    words[0]++;
    CHECK(!deep_stack_holds(&deep, now_ns()));
    CHECK_I64(deep.watch, -1);
    CHECK_U64(deep.slot, 0);
    CHECK_U64(deep.count, 0);
    CHECK(!deep_stack_holds(&deep, now_ns()));
    CHECK(deep_stack_look(&deep)); /* nothing more to break */
}

/* The same value as before: a call from the same place writes that. */
TEST(the_value_does_not_matter)
{
    watch();
    words[0] = words[0];
    CHECK(!deep_stack_holds(&deep, now_ns()));
}

TEST(what_was_written_while_it_was_read_is_not_known)
{
    if (!deep_stack_is_possible())
        SKIP("writes to watched words are not counted here");
    deep_stack_reset(&deep);
    REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[0]) == 0);
    CHECK(!deep_stack_holds(&deep, now_ns())); /* nothing was read yet */
    words[0]++;
    REQUIRE(deep_stack_know(&deep, callers, 3, &arena) == 0);
    CHECK(!deep_stack_holds(&deep, now_ns()));
}

TEST(samples_from_before_are_not_known)
{
    uint64_t before_ns = now_ns();
    watch();
    CHECK(!deep_stack_holds(&deep, before_ns));
    CHECK(deep_stack_holds(&deep, now_ns()));
    deep_stack_end(&deep);
}

TEST(samples_from_before_the_last_look_outlive_a_write)
{
    watch();
    uint64_t early_ns = now_ns();
    CHECK(deep_stack_look(&deep));
    words[0]++;
    CHECK(deep_stack_holds(&deep, early_ns));
    CHECK(!deep_stack_holds(&deep, now_ns()));
}

TEST(a_watch_that_costs_much_is_followed_by_a_rest)
{
    watch();
    words[0]++;
    CHECK(!deep_stack_look(&deep));
    CHECK(deep_stack_is_rested(&deep, now_ns())); /* of one write */
    REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[0]) == 0);
    for (unsigned i = 0; i < 1000; i++)
        words[0]++;
    CHECK(!deep_stack_look(&deep));
    CHECK(!deep_stack_is_rested(&deep, now_ns() + 1000000000u));
    CHECK(deep_stack_is_rested(&deep, now_ns() + 2000000000u));
}

/* Of use is one that a sample was found under. */
TEST(useless_watches_become_rare)
{
    watch();
    for (unsigned i = 0; i < 3; i++) {
        REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[i % 2]) == 0);
        CHECK(deep_stack_is_rested(&deep, now_ns()) == (i < 2));
    }
    for (unsigned i = 0; i < 100; i++)
        REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[i % 2]) == 0);
    CHECK(!deep_stack_is_rested(&deep, now_ns() + 500000000u));
    CHECK(deep_stack_is_rested(&deep, now_ns() + 10000000000u));
    REQUIRE(deep_stack_know(&deep, callers, 3, &arena) == 0);
    CHECK(deep_stack_holds(&deep, now_ns()));
    REQUIRE(deep_stack_watch(&deep, tid(), (uint64_t)(uintptr_t)&words[0]) == 0);
    CHECK_U64(deep.useless, 0);
    deep_stack_end(&deep);
}

TEST(no_such_thread_and_no_such_word)
{
    deep_stack_reset(&deep);
    CHECK(deep_stack_watch(&deep, tid(), 3 + (uint64_t)(uintptr_t)words) != 0);
    CHECK_I64(deep.watch, -1);
    CHECK(deep_stack_watch(&deep, 1 << 30, (uint64_t)(uintptr_t)words) != 0);
    CHECK_I64(deep.watch, -1);
}

TEST(without_memory_nothing_is_known)
{
    static uint64_t many[100000];
    watch();
    arena.fail_countdown = 1;
    CHECK_I64(deep_stack_know(&deep, many, 100000, &arena), -ENOMEM);
    arena.fail_countdown = 0;
    CHECK_I64(deep.watch, -1);
    CHECK_U64(deep.count, 0);
}

TEST(a_new_thread_inherits_the_memory_alone)
{
    watch();
    const uint64_t *ips = deep.ips;
    deep_stack_end(&deep);
    deep_stack_reset(&deep);
    CHECK(deep.ips == ips && deep.room >= 3);
    CHECK_I64(deep.watch, -1);
    CHECK(!deep_stack_holds(&deep, now_ns()));
}
