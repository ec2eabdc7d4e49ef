/* helper: its life, and what is its own: descriptors, signals, limits. */
#include "helper_fixture.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch_fixture.h"

#define CLOSE_RANGE_CALL 436

TEST(it_runs_and_ends)
{
    start(look_around, HELPER_STDERR_STAYS);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK_U64(notes.done, 1);
    CHECK_U64(helper.tid, 0);
    CHECK_I64(notes.parent, getpid());
    CHECK(notes.pid != getpid());
    CHECK(!notes.app_was_gone);
    CHECK_STR(notes.name, "selfsample");
    void *memory = helper.memory;
    helper_reap(&helper, notes.pid);
    helper_free(&helper);
    CHECK(helper.memory == NULL);
    unsigned char resident;
    CHECK(mincore(memory, 4096, &resident) == -1 && errno == ENOMEM);
    CHECK(waitpid(notes.pid, NULL, __WALL) == -1 && errno == ECHILD);
}

TEST(the_app_does_not_notice_it)
{
    start(look_around, HELPER_STDERR_BY_KIND);
    CHECK(waitpid(-1, NULL, WNOHANG) == -1 && errno == ECHILD);
    CHECK(__libc_single_threaded);
    CHECK_I64(WEXITSTATUS(end_status()), 0);
}

TEST(it_has_descriptors_of_its_own)
{
    int mine = open("/dev/null", O_RDONLY), report[2];
    REQUIRE(mine >= 0 && pipe(report) == 0);
    app_fd = mine;
    start(look_around, HELPER_STDERR_STAYS);
    int status = end_status();
    CHECK(WIFEXITED(status));
    CHECK_I64(notes.lowest_fd, 0); /* none of ours is open there, but for stderr */
    CHECK_I64(notes.app_fd_status, -EBADF);
    CHECK_I64(notes.stderr_status, 0);
    CHECK_I64(fcntl(mine, F_GETFD), 0);
    CHECK_I64(fcntl(1, F_GETFD), 0);
    close(mine);
    close(report[0]);
    close(report[1]);
}

#define FAR_FD 100

static int far_descriptor_is_closed_without_close_range(void)
{
    const struct rlimit few = {FAR_FD / 2, FAR_FD / 2};
    app_fd = FAR_FD;
    if (dup2(2, app_fd) != app_fd || setrlimit(RLIMIT_NOFILE, &few) != 0 ||
        refuse(CLOSE_RANGE_CALL, ENOSYS) != 0)
        return 77;
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    if (helper_start(&helper, HELPER_APART, look_around, &notes, HELPER_STDERR_STAYS) != 0 ||
        !helper_wait_end(&helper, 20 * SECOND_NS))
        return 1;
    return notes.app_fd_status == -EBADF && fcntl(app_fd, F_GETFD) >= 0 ? 0 : 2;
}

/* One that is beyond the limit of today is open, too. */
TEST(it_closes_descriptors_where_the_kernel_has_no_close_range)
{
    check_in_child(far_descriptor_is_closed_without_close_range);
}

/* Runs look_around with a stderr that is the write end of a pipe. */
TEST(whoever_reads_our_stderr_sees_its_end)
{
    int ends[2], kept = dup(2);
    REQUIRE(kept >= 0 && pipe(ends) == 0);
    dup2(ends[1], 2);
    if (!HELPER_IS_A_STRANGER) {
        start(look_around, HELPER_STDERR_BY_KIND);
        CHECK(WIFEXITED(end_status()));
    }
    dup2(kept, 2);
    close(kept);
    close(ends[0]);
    close(ends[1]);
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    CHECK(!helper.has_stderr);
    CHECK_I64(notes.stderr_status, -EBADF);
}

static pid_t groups[3], sessions[3]; /* of the helper: as it is born, settled, and in a session */

static void note_group(unsigned at)
{
    groups[at] = (pid_t)sys1(SYS_getpgid, 0);
    sessions[at] = (pid_t)sys1(SYS_getsid, 0);
}

static void change_groups(void *context)
{
    struct notes *found = context;
    found->pid = (pid_t)sys0(SYS_getpid);
    note_group(0);
    helper_settle(found->helper);
    note_group(1);
    helper_leave_session(found->helper);
    helper_leave_session(found->helper);
    note_group(2);
}

/* A group of its own keeps signals to the app's group from it, a session has its own part of the
 * processors. */
TEST(it_has_a_group_of_its_own_and_a_session_where_that_is_asked_for)
{
    start(change_groups, HELPER_STDERR_STAYS);
    CHECK_I64(WEXITSTATUS(end_status()), 0);
    CHECK_I64(groups[0], getpgrp());
    CHECK_I64(sessions[0], getsid(0));
    CHECK_I64(groups[1], notes.pid);
    CHECK_I64(sessions[1], getsid(0));
    CHECK_I64(groups[2], notes.pid);
    CHECK_I64(sessions[2], notes.pid);
}

/* Sleeps until GO, counting how often it looked up. */
static void wait_to_go(void *context)
{
    struct notes *found = context;
    helper_settle(found->helper);
    while (__atomic_load_n(&found->go, __ATOMIC_ACQUIRE) == 0) {
        uint32_t wakes = helper_wakes(found->helper);
        if (__atomic_load_n(&found->go, __ATOMIC_ACQUIRE) == 0)
            helper_sleep(found->helper, wakes, 3600 * SECOND_NS);
        __atomic_add_fetch(&found->done, 1, __ATOMIC_RELEASE);
    }
}

TEST(it_sleeps_until_it_is_woken)
{
    start(wait_to_go, HELPER_STDERR_STAYS);
    CHECK(!helper_wait_end(&helper, 20000000));
    CHECK_U64(notes.done, 0);
    __atomic_store_n(&notes.go, 1, __ATOMIC_RELEASE);
    helper_wake(&helper);
    CHECK_I64(WEXITSTATUS(end_status()), 0);
    CHECK(notes.done <= 1);
}

static uint32_t pause_wanted(void)
{
    return __atomic_load_n(&helper.pause_wanted, __ATOMIC_ACQUIRE);
}

/* Sends SIGUSR2, with VALUE unless that is 0, and waits until it has come. A signal before the
 * helper has its handlers is lost: where it is one that may come twice it is sent again. */
static bool pause_asked(int value, uint32_t wanted)
{
    union sigval with = {.sival_int = value};
    uint32_t wakes = helper_wakes(&helper);
    REQUIRE(helper.tid != 0); /* 0 would be all of us */
    if (value == 0)
        kill((pid_t)helper.tid, SIGUSR2);
    for (unsigned i = 0; i < 2000 && helper_wakes(&helper) == wakes; i++) {
        if (value != 0)
            sigqueue((pid_t)helper.tid, SIGUSR2, with);
        usleep(5000);
    }
    return pause_wanted() == wanted;
}

TEST(a_signal_pauses_and_resumes)
{
    start(wait_to_go, HELPER_STDERR_STAYS);
    CHECK(pause_asked(HELPER_VALUE_PAUSE, 1));
    CHECK(pause_asked(0, 0));
    CHECK(pause_asked(0, 1));
    CHECK(pause_asked(HELPER_VALUE_PAUSE, 1));
    CHECK(pause_asked(HELPER_VALUE_RESUME, 0));
    CHECK(pause_asked(HELPER_VALUE_RESUME, 0));
    __atomic_store_n(&notes.go, 1, __ATOMIC_RELEASE);
    helper_wake(&helper);
    CHECK_I64(WEXITSTATUS(end_status()), 0);
}

/* A wake-up between the look at the count and the sleep is not lost. */
TEST(a_wake_before_the_sleep_counts)
{
    helper = (struct helper){0};
    uint32_t wakes = helper_wakes(&helper);
    helper_wake(&helper);
    uint64_t before_ns = sys_clock_ns(CLOCK_MONOTONIC);
    helper_sleep(&helper, wakes, 60 * SECOND_NS);
    CHECK(sys_clock_ns(CLOCK_MONOTONIC) - before_ns < 30 * SECOND_NS);
    before_ns = sys_clock_ns(CLOCK_MONOTONIC);
    helper_sleep(&helper, helper_wakes(&helper), 5000000);
    CHECK(sys_clock_ns(CLOCK_MONOTONIC) - before_ns >= 5000000);
}

TEST(a_signal_asks_for_a_snapshot)
{
    start(wait_to_go, HELPER_STDERR_STAYS);
    pid_t pid = (pid_t)helper.tid;
    for (unsigned i = 0; i < 2000 && __atomic_load_n(&notes.done, __ATOMIC_ACQUIRE) == 0; i++) {
        kill(pid, SIGUSR1);
        usleep(5000);
    }
    CHECK(__atomic_load_n(&notes.done, __ATOMIC_ACQUIRE) > 0);
    CHECK(helper.snapshots_wanted > 0);
    /* None of these is for it. */
    kill(pid, SIGTERM);
    kill(pid, SIGINT);
    kill(pid, SIGHUP);
    CHECK(!helper_wait_end(&helper, 20000000));
    __atomic_store_n(&notes.go, 1, __ATOMIC_RELEASE);
    helper_wake(&helper);
    CHECK_I64(WEXITSTATUS(end_status()), 0);
}

TEST(its_signals_are_its_own)
{
    sigset_t before, now;
    sigprocmask(SIG_SETMASK, NULL, &before);
    start(look_around, HELPER_STDERR_STAYS);
    CHECK(WIFEXITED(end_status()));
    sigprocmask(SIG_SETMASK, NULL, &now);
    for (int signal = 1; signal < 32; signal++)
        CHECK_I64(sigismember(&now, signal), sigismember(&before, signal));
    static const int open[] = {SIGSEGV, SIGBUS, SIGFPE,  SIGILL,  SIGTRAP,
                               SIGABRT, SIGSYS, SIGCONT, SIGUSR1, SIGUSR2};
    uint64_t expected = ~(1ull << (SIGKILL - 1) | 1ull << (SIGSTOP - 1));
    for (unsigned i = 0; i < sizeof open / sizeof *open; i++)
        expected &= ~(1ull << (open[i] - 1));
    expected &= ~(1ull << (33 - 1)); /* the watchdog's, see helper.c */
    CHECK_U64(notes.blocked_signals, expected);
}

static void fault(void *context)
{
    (void)context;
    __asm__ volatile(ARCH_FAULT_CODE);
}

/* Those that its work may come to, and that only cost the app; and what its dump may have, which
 * would be one of the app's memory. */
static const int limits[] = {RLIMIT_NOFILE, RLIMIT_MEMLOCK, RLIMIT_CPU, RLIMIT_CORE};
#define LIMITS (sizeof limits / sizeof *limits)
static struct rlimit limits_found[LIMITS];

static void look_at_limits(void *context)
{
    helper_settle(((struct notes *)context)->helper);
    for (unsigned i = 0; i < LIMITS; i++)
        sys4(SYS_prlimit64, 0, limits[i], NULL, &limits_found[i]);
}

/* Less than it may be, and no less than this process needs. */
static struct rlimit lowered(struct rlimit limit)
{
    if (limit.rlim_cur == limit.rlim_max)
        limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? 1u << 20 : limit.rlim_max / 2;
    return limit;
}

TEST(its_limits_are_as_high_as_they_may_be)
{
    const struct rlimit dump = {1u << 20, 2u << 20}; /* root may always have one */
    struct rlimit before[LIMITS], app[LIMITS], after;
    for (unsigned i = 0; i < LIMITS; i++) {
        REQUIRE(getrlimit(limits[i], &before[i]) == 0);
        app[i] = lowered(before[i]);
        if (limits[i] == RLIMIT_CORE)
            setrlimit(limits[i], &dump);
        else
            setrlimit(limits[i], &app[i]);
        getrlimit(limits[i], &app[i]);
    }
    start(look_at_limits, true);
    CHECK(WIFEXITED(end_status()));
    for (unsigned i = 0; i < LIMITS; i++) {
        getrlimit(limits[i], &after);
        CHECK_U64(after.rlim_cur, app[i].rlim_cur);
        CHECK_U64(limits_found[i].rlim_cur, limits[i] == RLIMIT_CORE ? 0 : app[i].rlim_max);
        setrlimit(limits[i], &before[i]);
    }
}

TEST(its_fault_is_its_own)
{
    start(fault, HELPER_STDERR_STAYS);
    int status = end_status();
    CHECK(WIFEXITED(status));
    CHECK_I64(WEXITSTATUS(status), 2);
}

/* In the helper of a process that dies: waits for that, and says so in memory that outlives both.
 */
static void outlive(void *context)
{
    uint32_t *word = context;
    for (unsigned i = 0; i < 4000 && !helper_app_is_gone(&helper); i++)
        helper_sleep(&helper, helper_wakes(&helper), 5000000);
    __atomic_store_n(word, helper_app_is_gone(&helper) ? 1 : 2, __ATOMIC_RELEASE);
}

TEST(it_outlives_the_app)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    uint32_t *word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(word != MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        helper = (struct helper){0};
        if (helper_start(&helper, HELPER_APART, outlive, word, HELPER_STDERR_BY_KIND) != 0)
            _exit(1);
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    for (unsigned i = 0; i < 2000 && __atomic_load_n(word, __ATOMIC_ACQUIRE) == 0; i++)
        usleep(5000);
    CHECK_U64(__atomic_load_n(word, __ATOMIC_ACQUIRE), 1);
    munmap(word, 4096);
}

static void note_giving_up(void *context)
{
    struct notes *found = context;
    found->go = 77;
}

/* What libunwind does while it waits for its lock, except that nobody will give it. */
static void wait_for_ever(void *context)
{
    struct notes *found = context;
    sigset_t all;
    uint32_t lock = 1;
    helper_settle(found->helper);
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    found->done = 1;
    found->helper->give_up = note_giving_up;
    found->helper->give_up_context = found;
    helper_last_work(found->helper);
    for (;;)
        sys4(SYS_futex, &lock, 0, 1, NULL);
}

TEST(a_stuck_helper_ends_itself)
{
    start(wait_for_ever, HELPER_STDERR_BY_KIND);
    int status = end_status();
    CHECK(WIFEXITED(status));
    CHECK_I64(WEXITSTATUS(status), 3);
    CHECK(helper.last_seconds >= HELPER_LAST_SECONDS);
    CHECK_U64(notes.go, 77);
}

static int parent_signal(void)
{
    int number = -1;
    sys2(SYS_prctl, 2 /* PR_GET_PDEATHSIG */, &number);
    return number;
}

static void change_users(void *context)
{
    struct notes *found = context;
    bool watched = parent_signal() != 0;
    sys3(SYS_setresuid, 65534, 65534, 65534);
    bool forgotten = parent_signal() == 0;
    helper_parent_watch(&helper);
    found->done = watched && forgotten && parent_signal() != 0;
}

TEST(the_parent_is_watched_again_after_a_change_of_users)
{
    if (geteuid() != 0)
        SKIP("not root");
    start(change_users, HELPER_STDERR_STAYS);
    end_status();
    CHECK_U64(notes.done, 1);
}
