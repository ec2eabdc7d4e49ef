/* thread_clock: what the clocks of threads say, and how far their events are from that. */
#include "thread_clock.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "threads_fixture.h"

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
