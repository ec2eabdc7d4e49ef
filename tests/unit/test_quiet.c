/* quiet: one helper thread and several that "fork", each of which must never see work half-done. */
#include "quiet.h"

#include <pthread.h>
#include <sched.h>

#include "check.h"

#define FORKERS    4u
#define LONG_NS    60000000000u
#define TURNS      500u
#define BURN_TURNS 200u

static struct quiet quiet;
static volatile uint32_t half_done; /* changed only at work */
static uint32_t stop, seen_half_done, forks;

static bool never(const void *context)
{
    (void)context;
    return false;
}

static bool at_once(const void *context)
{
    (void)context;
    return true;
}

static const struct quiet_patience patience = {LONG_NS, never, NULL};

static void start_afresh(void)
{
    quiet = (struct quiet){0};
    half_done = stop = seen_half_done = forks = 0;
}

static void burn(void)
{
    for (volatile unsigned i = 0; i < BURN_TURNS; i++)
        continue;
}

/* "Forks" with no pause between, so that some thread is always at it. */
static void *forker(void *unused)
{
    while (__atomic_load_n(&stop, __ATOMIC_RELAXED) == 0) {
        struct quiet_fork fork = quiet_ask(&quiet, LONG_NS);
        for (int i = 0; i < 20; i++) {
            if (__atomic_load_n(&half_done, __ATOMIC_RELAXED) != 0 || !quiet_is_sure(&quiet, fork))
                __atomic_store_n(&seen_half_done, 1, __ATOMIC_RELAXED);
            burn();
        }
        __atomic_add_fetch(&forks, 1, __ATOMIC_RELAXED);
        quiet_release(&quiet, fork);
    }
    return unused;
}

static void work(unsigned yields)
{
    quiet_begin(&quiet, &patience);
    for (unsigned i = 0; i <= yields; i++) {
        __atomic_store_n(&half_done, 1, __ATOMIC_RELAXED);
        burn();
        __atomic_store_n(&half_done, 0, __ATOMIC_RELAXED);
        if (i < yields)
            quiet_yield(&quiet, &patience);
    }
    quiet_end(&quiet);
}

/* Its end alone says that forks without a pause do not starve the helper. */
TEST(forks_and_work_exclude_each_other_and_both_get_on)
{
    pthread_t threads[FORKERS];
    start_afresh();
    for (unsigned i = 0; i < FORKERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, forker, NULL) == 0);
    for (unsigned i = 0; i < TURNS; i++)
        work(i % 3);
    while (__atomic_load_n(&forks, __ATOMIC_RELAXED) < 100)
        sched_yield();
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < FORKERS; i++)
        pthread_join(threads[i], NULL);
    CHECK_U64(seen_half_done, 0);
    CHECK_U64(quiet.forking[0] + quiet.forking[1], 0);
    CHECK_U64(quiet.turn % 2, 0);
}

TEST(a_fork_that_waited_enough_is_not_sure)
{
    start_afresh();
    quiet_begin(&quiet, &patience);
    struct quiet_fork fork = quiet_ask(&quiet, 1000000);
    CHECK(fork.waited_enough);
    CHECK(!quiet_is_sure(&quiet, fork));
    quiet_end(&quiet);
    CHECK(!quiet_is_sure(&quiet, fork)); /* the copy may be older than what it shows */
    quiet_release(&quiet, fork);
    fork = quiet_ask(&quiet, LONG_NS);
    CHECK(quiet_is_sure(&quiet, fork));
    quiet_release(&quiet, fork);
}

TEST(a_helper_out_of_patience_goes_on_and_the_fork_can_tell)
{
    const struct quiet_patience short_patience = {2000000, never, NULL};
    const struct quiet_patience none = {LONG_NS, at_once, NULL};
    start_afresh();
    struct quiet_fork fork = quiet_ask(&quiet, LONG_NS);
    CHECK(quiet_is_sure(&quiet, fork));
    quiet_begin(&quiet, &short_patience);
    CHECK(!quiet_is_sure(&quiet, fork));
    quiet_end(&quiet);
    quiet_begin(&quiet, &none);
    CHECK(!quiet_is_sure(&quiet, fork));
    quiet_end(&quiet);
    quiet_release(&quiet, fork);
}

TEST(what_was_not_asked_is_not_released)
{
    start_afresh();
    quiet_release(&quiet, (struct quiet_fork){0});
    CHECK_U64(quiet.forking[0], 0);
    CHECK(quiet_is_sure(&quiet, (struct quiet_fork){0}));
}

/* In a child: of a fork in a handler that came in the midst of another fork. */
TEST(what_was_asked_before_a_reset_is_not_released)
{
    start_afresh();
    struct quiet_fork outer = quiet_ask(&quiet, LONG_NS), inner = quiet_ask(&quiet, LONG_NS);
    CHECK(quiet_is_sure(&quiet, inner));
    quiet_reset(&quiet);
    quiet_release(&quiet, outer);
    CHECK_U64(quiet.forking[0] + quiet.forking[1], 0);
    struct quiet_fork next = quiet_ask(&quiet, LONG_NS);
    quiet_release(&quiet, next);
    CHECK_U64(quiet.forking[0] + quiet.forking[1], 0);
}
