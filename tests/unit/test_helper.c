/*
 * helper: helpers of this very process that leave words in its memory. What runs in them calls the
 * kernel only, as all that runs in a helper must.
 */
#include "helper.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arch_fixture.h"
#include "check.h"
#include "refusal.h"
#include "sys.h"

#define SECOND_NS        1000000000ull
#define CLOSE_RANGE_CALL 436

/* A sanitizer that keeps its own notes of each thread knows nothing of the helper. */
#if defined(__SANITIZE_THREAD__)
#define HELPER_IS_A_STRANGER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HELPER_IS_A_STRANGER 1
#endif
#endif
#ifndef HELPER_IS_A_STRANGER
#define HELPER_IS_A_STRANGER 0
#endif

/* What a helper found. */
struct notes {
    uint32_t done;
    uint32_t go;
    int lowest_fd;
    int app_fd_status;
    int stderr_status;
    pid_t pid, parent;
    uint64_t blocked_signals;
    char name[16];
    bool app_was_gone;
    struct helper *helper;
};

static struct helper helper;
static struct notes notes;
static int app_fd = -1; /* a descriptor of the app's */

/* Starts RUN as a helper of a fresh struct. */
static void start(void (*run)(void *), enum helper_stderr its_stderr)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_APART, run, &notes, its_stderr) == 0);
}

/* Waits for the helper's end; its wait status. */
static int end_status(void)
{
    int status = -1;
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK(waitpid(-1, &status, __WCLONE) > 0); /* it is our only child */
    munmap(helper.memory, helper.memory_bytes);
    return status;
}

static void look_around(void *context)
{
    struct notes *found = context;
    helper_settle(found->helper);
    found->pid = (pid_t)sys0(SYS_getpid);
    found->parent = (pid_t)sys0(SYS_getppid);
    found->lowest_fd = sys_open("/dev/null", O_RDONLY, 0);
    found->app_fd_status = (int)sys3(SYS_fcntl, app_fd, F_GETFD, 0);
    found->stderr_status = (int)sys3(SYS_fcntl, 2, F_GETFD, 0);
    sys4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &found->blocked_signals, 8);
    sys2(SYS_prctl, 16 /* PR_GET_NAME */, found->name);
    found->app_was_gone = helper_app_is_gone(found->helper);
    found->done = 1;
}

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
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    int status = in_child(far_descriptor_is_closed_without_close_range);
    if (status == 77)
        SKIP("no such descriptor, or no seccomp filters here");
    CHECK_I64(status, 0);
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

/* A child that only those see who ask for children of clone, called NAME; it ends at once. */
static pid_t child_named(const char *name)
{
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child != 0)
        return child;
    prctl(PR_SET_NAME, name);
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

static bool is_waited_for(pid_t child)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | __WCLONE) == 0;
}

/* The same as a thread of ours. */
TEST(a_thread_is_apart_where_it_can_be)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    int mine = open("/dev/null", O_RDONLY);
    REQUIRE(mine >= 0);
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_THREAD, look_around, &notes, HELPER_STDERR_STAYS) == 0);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK_U64(notes.done, 1);
    CHECK_I64(notes.pid, getpid());
    CHECK_I64(notes.parent, getppid());
    CHECK_I64(notes.lowest_fd, 0);
    CHECK_I64(notes.stderr_status, 0);
    CHECK_U64(notes.blocked_signals, ~0ull & ~(1ull << (SIGKILL - 1)) & ~(1ull << (SIGSTOP - 1)));
    CHECK_STR(notes.name, "selfsample");
    CHECK(!notes.app_was_gone);
    CHECK(__libc_single_threaded);
    CHECK_I64(fcntl(mine, F_GETFD), 0);
    close(mine);
    void *memory = helper.memory;
    helper_reap(&helper, 0);
    helper_free(&helper);
    unsigned char resident;
    CHECK(mincore(memory, 4096, &resident) == -1 && errno == ENOMEM);
}

/* SIGALRM ends a test that waits for ever. */
TEST(one_that_never_comes_apart_is_not_waited_for_for_ever)
{
    helper = (struct helper){0};
    alarm(20);
    helper_wait_apart(&helper);
    alarm(0);
    CHECK_U64(helper.is_apart, 0);
}

static void do_nothing(void *unused)
{
    (void)unused;
}

static int start_where_it_is_killed(void)
{
    if (filter_call(SYS_unshare, SECCOMP_RET_KILL_THREAD) != 0)
        return 77;
    alarm(8);
    helper = (struct helper){0};
    int result = helper_start(&helper, HELPER_THREAD, do_nothing, NULL, HELPER_STDERR_STAYS);
    return result == -ESRCH && helper.memory == NULL ? 0 : 1;
}

TEST(a_thread_that_is_killed_before_it_is_apart_is_not_waited_for)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    int status = in_child(start_where_it_is_killed);
    if (status == 77)
        SKIP("no seccomp filters here");
    CHECK_I64(status, 0);
}

static void use_cpu(void *context)
{
    struct notes *found = context;
    uint64_t start_ns = helper_cpu_in_app_ns(found->helper);
    while (helper_cpu_in_app_ns(found->helper) - start_ns < 20000000 && found->go == 0)
        found->go = found->helper->kind == HELPER_APART;
    found->done = helper_cpu_in_app_ns(found->helper) / 1000000;
}

TEST(a_threads_time_is_in_the_process_clock)
{
    start(use_cpu, HELPER_STDERR_STAYS);
    end_status();
    CHECK_U64(notes.done, 0);
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_THREAD, use_cpu, &notes, HELPER_STDERR_STAYS) == 0);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK(notes.done >= 20);
    helper_reap(&helper, 0);
    helper_free(&helper);
}

TEST(former_helpers_are_reaped_and_nobody_else)
{
    pid_t ours = child_named("selfsample");
    REQUIRE(ours > 0 && is_waited_for(ours));
    helper_reap_former();
    CHECK(!is_waited_for(ours));
    pid_t stranger = child_named("selfsamples");
    REQUIRE(stranger > 0 && is_waited_for(stranger));
    helper_reap_former();
    CHECK(is_waited_for(stranger));
    CHECK_I64(waitpid(stranger, NULL, __WCLONE), stranger);
    helper_reap_former(); /* without any child */
}

TEST(it_cannot_be_started_without_memory)
{
    struct rlimit before, none;
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    none = before;
    none.rlim_cur = 1;
    helper = (struct helper){0};
    setrlimit(RLIMIT_AS, &none);
    int result = helper_start(&helper, HELPER_APART, look_around, &notes, HELPER_STDERR_STAYS);
    setrlimit(RLIMIT_AS, &before);
    CHECK_I64(result, -ENOMEM);
    CHECK(helper.memory == NULL);
    CHECK_U64(helper.tid, 0);
    CHECK(helper_wait_end(&helper, 0)); /* of one that never was */
}

/* Behind the guard page. AddressSanitizer knows it as the stack of a task that has ended. */
__attribute__((noinline, no_sanitize("address"))) static bool is_wiped(const uint8_t *memory,
                                                                       size_t bytes)
{
    for (size_t i = 4096; i < bytes; i++)
        if (memory[i] != 0)
            return false;
    return true;
}

/* In the child: 0, or what is wrong. */
static int start_anew(const uint8_t *memory)
{
    helper_forked(&helper);
    if (!helper.memory_is_fresh || helper.memory != memory)
        return 1;
    if (!is_wiped(memory, helper.memory_bytes))
        return 2;
    notes = (struct notes){.helper = &helper};
    if (helper_start(&helper, HELPER_APART, look_around, &notes, true) != 0)
        return 3;
    if (!helper_wait_end(&helper, 20 * SECOND_NS) || notes.done != 1 || helper.memory != memory)
        return 4;
    /* Once used it is fit for no other. */
    if (helper_start(&helper, HELPER_APART, look_around, &notes, true) != 0)
        return 5;
    return helper_wait_end(&helper, 20 * SECOND_NS) && helper.memory != memory ? 0 : 6;
}

TEST(a_forked_childs_helper_has_the_memory_wiped)
{
    start(look_around, true);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    REQUIRE(helper.memory_is_wiped); /* by every kernel that tests run on */
    pid_t child = fork();
    if (child == 0)
        _exit(start_anew(helper.memory));
    int status = -1;
    CHECK_I64(waitpid(child, &status, 0), child);
    CHECK_I64(status, 0);
    helper_reap(&helper, notes.pid);
    helper_free(&helper);
}

TEST(a_forked_childs_helper_maps_what_was_not_wiped)
{
    helper = (struct helper){.memory = (uint8_t *)4096, .pause_wanted = 1};
    helper_forked(&helper);
    CHECK(helper.memory == NULL);
    CHECK(!helper.memory_is_fresh);
    CHECK_U64(helper.pause_wanted, 1);
}

static void on_alarm(int unused)
{
    (void)unused;
}

static void *come_apart_late(void *unused)
{
    usleep(100000);
    __atomic_store_n(&helper.is_apart, 1, __ATOMIC_RELEASE);
    sys3(SYS_futex, &helper.is_apart, 1 /* FUTEX_WAKE */, 1);
    return unused;
}

TEST(the_wait_for_it_outlives_signals)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
    sigset_t alarms;
    pthread_t thread;
    helper = (struct helper){0};
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* in the other thread, which inherits that */
    REQUIRE(pthread_create(&thread, NULL, come_apart_late, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    helper_wait_apart(&helper);
    CHECK_U64(helper.is_apart, 1);
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_join(thread, NULL);
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
