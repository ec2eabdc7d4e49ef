/* thread_clock: what the clocks of threads say, and how far their events are from that. */
#include "thread_clock.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "threads_fixture.h"

#define MS_NS 1000000u

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

/* Of one that stands for others all that its clock does not show, to the tick. */
TEST(a_thread_that_stands_for_others_is_given_no_slack)
{
    struct threads threads = table(8 * MIB);
    struct thread *thread = admit(&threads, getpid(), NOW_NS);
    uint64_t cpu_ns = thread_read_cpu_ns(getpid(), getpid());
    if (cpu_ns == 0)
        SKIP("no schedstat");
    thread->base_cpu_ns = cpu_ns;
    uint64_t seconds_told = thread_stolen_ns(&threads, thread, SECOND_NS, UINT64_MAX) / 900000000;
    CHECK_U64(seconds_told, 1);
    CHECK(thread_used_ns(thread) == 0);
    thread->stolen_ns = 0;
    CHECK_U64(thread_stolen_ns(&threads, thread, 5000000, UINT64_MAX), 0);
    thread->one_in = 16;
    CHECK(thread_stolen_ns(&threads, thread, 5000000, UINT64_MAX) > 0);
    /* It is gone, and nothing is known but its last sample. */
    thread->tid = 0x7ffffff;
    thread->count_ns = 5000000;
    CHECK_U64(thread_stolen_ns(&threads, thread, 9000000, UINT64_MAX), 4000000);
}

/* This thread as one of the table that has used so much since its event began to count. */
static struct thread *counted_since(struct threads *threads, uint64_t used_ns)
{
    struct thread *thread = admit(threads, getpid(), NOW_NS);
    uint64_t cpu_ns = thread_read_cpu_ns(getpid(), getpid());
    if (cpu_ns == 0)
        SKIP("no schedstat");
    REQUIRE(cpu_ns > used_ns);
    thread->base_cpu_ns = cpu_ns - used_ns;
    return thread;
}

/* It was on a processor at least a thousand times: 20 ms that may lack. */
static void be_switched_to(void)
{
    burn(20000000);
    for (unsigned i = 0; i < 1000; i++)
        usleep(1);
}

/* That were in no sample, of this thread, which is one of the table. */
static uint64_t switched_ns(struct threads *threads, struct thread *thread, uint64_t count_ns,
                            uint64_t least_ns)
{
    struct thread_times times;
    REQUIRE(thread_times_read(threads, thread, &times));
    return thread_switched_ns(thread, &times, count_ns, least_ns);
}

TEST(what_switches_take_is_told_once)
{
    be_switched_to();
    struct threads threads = table(8 * MIB);
    struct thread *thread = counted_since(&threads, 8 * MS_NS);
    CHECK_U64(switched_ns(&threads, thread, SECOND_NS, 0), 0);
    CHECK_U64(switched_ns(&threads, thread, MS_NS, SECOND_NS), 0); /* it is less than that */
    uint64_t ns = switched_ns(&threads, thread, MS_NS, MS_NS);
    CHECK(ns >= 7 * MS_NS && ns < 18 * MS_NS);
    CHECK_U64(thread->switched_ns, ns);
    CHECK_U64(switched_ns(&threads, thread, MS_NS, 10 * MS_NS), 0);
    thread->count_ns = MS_NS;
    CHECK_U64(thread_stolen_ns(&threads, thread, MS_NS, UINT64_MAX), 0);
    /* What its event counts now is more than its clock shows, and the tick that this may be late.
     */
    CHECK(thread_stolen_ns(&threads, thread, 100 * MS_NS, UINT64_MAX) > 70 * MS_NS);
}

TEST(what_was_stolen_was_not_used_while_switching)
{
    be_switched_to();
    struct threads threads = table(8 * MIB);
    struct thread *thread = counted_since(&threads, 8 * MS_NS);
    thread->stolen_ns = 5 * MS_NS;
    uint64_t ns = switched_ns(&threads, thread, 6 * MS_NS, 0);
    CHECK(ns >= 7 * MS_NS && ns < 18 * MS_NS);
}

/* Fifty of 20 us can be a ms; the rest has another reason. */
TEST(switches_take_no_more_than_they_can)
{
    struct thread thread = {.base_cpu_ns = 1000};
    struct thread_times times = {.cpu_ns = 1000 + SECOND_NS, .switches = 49};
    CHECK(!thread_may_have_switched(&thread, &times, MS_NS));
    CHECK_U64(thread_switched_ns(&thread, &times, 0, MS_NS), 0);
    times.switches = 99;
    CHECK(thread_may_have_switched(&thread, &times, MS_NS));
    CHECK_U64(thread_switched_ns(&thread, &times, 0, MS_NS), 99 * 20000);
    CHECK(!thread_may_have_switched(&thread, &times, MS_NS));
    CHECK_U64(thread_switched_ns(&thread, &times, 0, 0), 0);
    times.switches = 149;
    CHECK_U64(thread_switched_ns(&thread, &times, SECOND_NS - 99 * 20000 - 500000, 0), 500000);
    thread.base_cpu_ns = 0; /* nothing is known */
    CHECK_U64(thread_switched_ns(&thread, &times, 0, 0), 0);
}

TEST(times_of_a_thread_that_is_gone_are_its_last_word)
{
    struct threads threads = table(8 * MIB);
    struct thread_times times;
    struct thread *thread = admit(&threads, 0x7ffffff, NOW_NS);
    CHECK(!thread_times_read(&threads, thread, &times));
    thread->end_cpu_ns = SECOND_NS;
    thread->end_switches = 17;
    CHECK(thread_times_read(&threads, thread, &times));
    CHECK_U64(times.cpu_ns, SECOND_NS);
    CHECK_U64(times.switches, 17);
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
    CHECK_U64(thread_read_cpu_ns(getpid(), 0x7ffffff), 0);
}
