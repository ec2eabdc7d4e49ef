/* first_clock: what a process has used is known when it is reaped. */
#include "first_clock.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "event.h"

#define BURNT_NS 30000000u

static uint64_t process_ns(pid_t pid)
{
    clockid_t clock;
    struct timespec now;
    if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* A child that burns some time, stops, and burns as much again. */
static pid_t child_that_stops(void)
{
    pid_t pid = fork();
    for (int i = 0; pid == 0 && i < 2; i++) {
        for (uint64_t end_ns = process_ns(0) + BURNT_NS; process_ns(0) < end_ns;)
            continue;
        if (i == 0)
            raise(SIGSTOP);
    }
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, WUNTRACED);
    return pid;
}

static void child_end(pid_t pid)
{
    kill(pid, SIGCONT);
    waitpid(pid, NULL, 0);
}

TEST(a_process_that_is_reaped_has_its_clock)
{
    struct event_traits traits;
    struct first_clock clock = {.ahead_ns = 0};
    if (event_probe(&traits, false) != 0)
        SKIP("the kernel refuses perf_event_open");
    pid_t pid = child_that_stops();
    first_clock_open(&clock, pid);
    uint64_t before_ns = process_ns(pid);
    first_clock_set(&clock, before_ns);
    CHECK(clock.fd == FIRST_CLOCK_FD);
    CHECK_U64(first_clock_ns(&clock, pid), before_ns);
    CHECK_U64(first_clock_ns(&clock, pid + 1), 0);
    child_end(pid);
    CHECK_U64(process_ns(pid), 0);
    uint64_t used_ns = first_clock_ns(&clock, pid) - before_ns;
    CHECK(used_ns > BURNT_NS / 10 * 9 &&
          used_ns < 10ull * BURNT_NS); /* the host's part counts, too */
    CHECK_U64(first_clock_process_ns(&clock), used_ns + before_ns);
    clock.ahead_ns = before_ns - 1; /* other threads' */
    CHECK_U64(first_clock_process_ns(&clock), used_ns + before_ns);
    CHECK_U64(first_clock_ns(&clock, pid), used_ns + 1);
    first_clock_close(&clock);
    CHECK_U64(first_clock_ns(&clock, pid), 0);
}

TEST(what_is_not_known_has_no_clock)
{
    struct first_clock clock = {.ahead_ns = 0};
    pid_t pid = child_that_stops();
    first_clock_open(&clock, pid);
    first_clock_set(&clock, 0);
    CHECK_U64(first_clock_ns(&clock, pid), 0);
    child_end(pid);
    first_clock_open(&clock, pid);
    first_clock_set(&clock, 1);
    CHECK_U64(first_clock_ns(&clock, pid), 0);
    CHECK_U64(first_clock_ns(&clock, 0), 0);
}

/* Where nobody came to open a clock, what a thread has noted before it left speaks for it. */
TEST(who_leaves_has_noted_its_clocks)
{
    struct first_clock clock = {.tid = 0};
    CHECK_U64(first_clock_process_ns(&clock), 0);
    uint64_t before_ns = process_ns(0);
    first_clock_note_exit(&clock);
    uint64_t noted_ns = first_clock_process_ns(&clock);
    CHECK(noted_ns >= before_ns && noted_ns <= process_ns(0));
    CHECK(first_clock_ns(&clock, getpid()) != 0 && first_clock_ns(&clock, getpid()) <= noted_ns);
    CHECK_U64(first_clock_ns(&clock, getpid() + 1), 0);
}

TEST(the_last_descriptors_are_for_files)
{
    struct first_clock clock = {.tid = 0};
    struct rlimit before, few;
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    few = before;
    few.rlim_cur = 8;
    setrlimit(RLIMIT_NOFILE, &few);
    first_clock_open(&clock, getpid());
    setrlimit(RLIMIT_NOFILE, &before);
    CHECK_I64(clock.tid, 0);
}
