/*
 * Making the helper, and its own process state: signals, descriptors, limits, name. helper_start,
 * helper_wake, helper_wait_end and those that reap run in the app's threads, all else in the
 * helper.
 */
#include "helper.h"

#include <linux/futex.h>
#include <linux/sched.h>
#include <linux/sched/types.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "kernel_sigaction.h"
#include "mapping.h"
#include "proc_tasks.h"
#include "sys.h"

#define STACK_BYTES      (6u * 1024 * 1024) /* touched as used; demanglers recurse */
#define GUARD_BYTES      ARCH_PAGE_BYTES_MOST
#define MEMORY_BYTES     (GUARD_BYTES + STACK_BYTES + ARCH_TLS_BELOW_BYTES + ARCH_TLS_ABOVE_BYTES)
#define STATUS_FAULT     2
#define STATUS_STUCK     3
#define NICE_WANTED      (-10)
#define APART_WAIT_NS    200000000
#define THREAD_WAIT_NS   10000000000ull
#define THREAD_PART_NS   20000000 /* between looks whether it has ended */
#define SLICE_NS         100000u  /* asks the scheduler for prompt, short turns (Linux 6.12) */
#define CLOSE_RANGE_CALL 436      /* since Linux 5.9; older headers lack the name */

#define FLAGS_APART                                                                                \
    (CLONE_VM | CLONE_SETTLS | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)
/* Exactly what libc asks for: filters let no other threads pass. */
#define FLAGS_THREAD                                                                               \
    (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM |            \
     CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

/* The signal that the kernel sends us when the thread that made us ends: one that a helper takes
 * that somebody has stopped, too. */
#define SIGNAL_PARENT   SIGCONT
#define SIGNAL_SNAPSHOT SIGUSR1
#define SIGNAL_PAUSE    SIGUSR2

/* The watchdog's. libunwind blocks all signals while it waits for its lock, but all of libc's
 * idea, which leaves this one out: inside the app it is libc's own. */
#define SIGNAL_SECOND 33

static struct helper *helper_of_handlers;

/* 0: a signal without one. */
static int value_of(const siginfo_t *info)
{
    return info->si_code == SI_QUEUE ? info->si_value.sival_int : 0;
}

static void pause_want(uint32_t *wanted, const siginfo_t *info)
{
    int value = value_of(info);
    if (value == HELPER_VALUE_PAUSE || value == HELPER_VALUE_RESUME)
        __atomic_store_n(wanted, value == HELPER_VALUE_PAUSE, __ATOMIC_RELAXED);
    else
        __atomic_xor_fetch(wanted, 1, __ATOMIC_RELAXED);
}

static void on_wake(int signal, siginfo_t *info, void *unused)
{
    struct helper *helper = helper_of_handlers;
    (void)unused;
    if (signal == SIGNAL_SNAPSHOT && value_of(info) == HELPER_VALUE_LOOK)
        __atomic_add_fetch(&helper->looks_wanted, 1, __ATOMIC_RELAXED);
    else if (signal == SIGNAL_SNAPSHOT)
        __atomic_add_fetch(&helper->snapshots_wanted, 1, __ATOMIC_RELAXED);
    else if (signal == SIGNAL_PAUSE)
        pause_want(&helper->pause_wanted, info);
    __atomic_add_fetch(&helper->wakes, 1, __ATOMIC_RELEASE);
}

/* A fault of our own. Kernels before 5.16 would kill the app with us if the signal killed us. */
static void on_fault(int signal, siginfo_t *info, void *unused)
{
    (void)signal, (void)info, (void)unused;
    sys1(SYS_exit_group, STATUS_FAULT);
}

/* A second has gone by. A stopped or frozen helper gets one such signal for all of its pause. */
static void on_second(int signal, siginfo_t *info, void *context)
{
    struct helper *helper = helper_of_handlers;
    (void)signal;
    (void)info;
    (void)context;
    helper->stuck_seconds = helper->beats == helper->beats_seen ? helper->stuck_seconds + 1 : 0;
    helper->beats_seen = helper->beats;
    if (helper->is_last_work || helper_app_is_gone(helper))
        helper->last_seconds++;
    if (helper->stuck_seconds >= HELPER_STUCK_SECONDS ||
        helper->last_seconds >= HELPER_LAST_SECONDS) {
        if (helper->give_up != NULL)
            helper->give_up(helper->give_up_context);
        sys1(SYS_exit_group, STATUS_STUCK);
    }
}

static void watchdog_start(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGNAL_SECOND};
    const struct itimerspec each_second = {.it_value = {1, 0}, .it_interval = {1, 0}};
    int timer;
    if (sys3(SYS_timer_create, CLOCK_MONOTONIC, &event, &timer) == 0)
        sys4(SYS_timer_settime, timer, 0, &each_second, NULL);
}

#define BIT(signal) kernel_signal_bit(signal)
#define FAULTS                                                                                     \
    (BIT(SIGSEGV) | BIT(SIGBUS) | BIT(SIGFPE) | BIT(SIGILL) | BIT(SIGTRAP) | BIT(SIGABRT) |        \
     BIT(SIGSYS))
#define FIRST_SIGNALS (FAULTS | BIT(SIGNAL_PARENT))
#define OUR_SIGNALS   (FIRST_SIGNALS | BIT(SIGNAL_SNAPSHOT) | BIT(SIGNAL_PAUSE) | BIT(SIGNAL_SECOND))

static void handlers_set(uint64_t signals, kernel_signal_handler *handler)
{
    for (int signal = 1; signal < 64; signal++)
        if ((signals & BIT(signal)) != 0)
            kernel_sigaction_set(signal, handler, SA_RESTART, 0);
}

static void signals_unblock(uint64_t signals)
{
    uint64_t blocked = ~signals;
    sys4(SYS_rt_sigprocmask, SIG_SETMASK, &blocked, NULL, sizeof blocked);
}

/* What can't wait. All else is blocked from the task's start on, and stays so: the app's handlers
 * are not ours, and none may end us (SIGXFSZ, where the app may write no files). */
static void first_signals_set(void)
{
    handlers_set(FAULTS, on_fault);
    handlers_set(BIT(SIGNAL_PARENT), on_wake);
    signals_unblock(FIRST_SIGNALS);
}

static void signals_set(void)
{
    handlers_set(BIT(SIGNAL_SNAPSHOT) | BIT(SIGNAL_PAUSE), on_wake);
    handlers_set(BIT(SIGNAL_SECOND), on_second);
    signals_unblock(OUR_SIGNALS);
}

/* Closing a pipe's or socket's end matters to whoever waits for its other end; a terminal or a file
 * may stay open for a last word. (The sanitizer takes a fresh stack at an address of an earlier
 * helper's for what was left of that one.) */
__attribute__((noinline, no_sanitize("address"))) static bool stderr_may_stay(void)
{
    struct stat status;
    return sys_fstat(2, &status) == 0 && (S_ISCHR(status.st_mode) || S_ISREG(status.st_mode));
}

static void descriptor_close(void *unused, int fd)
{
    (void)unused;
    if (fd > 2)
        sys_close(fd);
}

/* Without close_range (before Linux 5.9, in gVisor) those that are open are asked for: to try all
 * numbers takes milliseconds, or half a second where system calls are emulated. */
static void descriptors_close(bool keep_stderr)
{
    sys_close(0);
    sys_close(1);
    if (!keep_stderr)
        sys_close(2);
    if (sys3(CLOSE_RANGE_CALL, 3, ~0u, 0) == 0 ||
        proc_own_descriptors_read(descriptor_close, NULL) == 0)
        return;
    struct rlimit limit;
    if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0 || limit.rlim_cur > 65536)
        limit.rlim_cur = 65536;
    for (int fd = 3; fd < (int)limit.rlim_cur; fd++)
        sys_close(fd);
}

static void limit_raise(int resource)
{
    struct rlimit limit;
    if (sys4(SYS_prlimit64, 0, resource, NULL, &limit) != 0)
        return;
    limit.rlim_cur = limit.rlim_max;
    sys4(SYS_prlimit64, 0, resource, &limit, NULL);
}

void helper_parent_watch(const struct helper *helper)
{
    if (helper->kind == HELPER_APART)
        sys3(SYS_prctl, PR_SET_PDEATHSIG, SIGNAL_PARENT, 0);
}

/* What each thread has for itself. */
static void task_state_set(void)
{
    struct sched_attr attr = {.size = sizeof attr, .sched_policy = 0, .sched_runtime = SLICE_NS};
    sys3(SYS_setpriority, PRIO_PROCESS, 0, NICE_WANTED); /* root, or RLIMIT_NICE; else it stays */
    attr.sched_nice = (int32_t)(20 - sys2(SYS_getpriority, PRIO_PROCESS, 0));
    sys3(SYS_sched_setattr, 0, &attr, 0);
}

/* What all threads of a process share. A kill of the app's process group must not take the profile.
 */
static void process_state_set(struct helper *helper)
{
    struct rlimit no_core = {0, 0};
    signals_set();
    helper->first_group = (pid_t)sys1(SYS_getpgid, 0);
    sys2(SYS_setpgid, 0, 0);
    sys4(SYS_prlimit64, 0, RLIMIT_CORE, &no_core, NULL);
    limit_raise(RLIMIT_NOFILE);
    limit_raise(RLIMIT_MEMLOCK);
    limit_raise(RLIMIT_CPU);
    watchdog_start();
}

void helper_settle(struct helper *helper)
{
    if (helper->kind == HELPER_APART)
        process_state_set(helper);
    task_state_set();
}

void helper_leave_session(struct helper *helper)
{
    if (helper->kind != HELPER_APART || helper->has_session)
        return;
    helper->has_session = true;
    /* The leader of a group can't begin a session, and the group is what its number says. */
    sys2(SYS_setpgid, 0, helper->first_group);
    if (sys0(SYS_setsid) < 0)
        sys2(SYS_setpgid, 0, 0);
}

/* Before anything else: somebody waits for it. 0 or -errno. */
static int come_apart(struct helper *helper)
{
    int result = helper->kind == HELPER_APART ? 0 : (int)sys1(SYS_unshare, CLONE_FILES | CLONE_FS);
    if (result == 0) {
        helper->has_stderr = helper->its_stderr == HELPER_STDERR_STAYS ||
                             (helper->its_stderr == HELPER_STDERR_BY_KIND && stderr_may_stay());
        descriptors_close(helper->has_stderr);
    }
    __atomic_store_n(&helper->is_apart, result == 0 ? 1 : (uint32_t)result, __ATOMIC_RELEASE);
    sys3(SYS_futex, &helper->is_apart, FUTEX_WAKE, 1);
    return result;
}

static void entry_apart(void *argument)
{
    struct helper *helper = argument;
    if (helper_of_handlers != helper)
        helper_of_handlers = helper;
    come_apart(helper);
    first_signals_set();
    sys3(SYS_prctl, PR_SET_NAME, HELPER_NAME, 0);
    helper_parent_watch(helper);
    helper->run(helper->context);
    sys1(SYS_exit_group, 0);
    __builtin_unreachable();
}

/* All signals are blocked, and stay so: handlers, and what is done without one, are the app's. */
static void entry_thread(void *argument)
{
    struct helper *helper = argument;
    if (come_apart(helper) == 0) {
        sys3(SYS_prctl, PR_SET_NAME, HELPER_NAME, 0);
        helper->run(helper->context);
    }
    sys1(SYS_exit, 0);
    __builtin_unreachable();
}

/* The guard page is at the bottom, then the stack, then the thread block. Kernels since 4.14 wipe
 * what a forked child gets of it. */
static int memory_map(struct helper *helper)
{
    uint8_t *memory = mapping_not_for_forks(MEMORY_BYTES);
    if (sys_is_error(memory))
        return (int)(intptr_t)memory;
    sys3(SYS_mprotect, memory, GUARD_BYTES, PROT_NONE);
    helper->memory_is_wiped = sys3(SYS_madvise, memory, MEMORY_BYTES, MADV_WIPEONFORK) == 0;
    if (!helper->memory_is_wiped)
        sys3(SYS_madvise, memory, MEMORY_BYTES, MADV_DONTFORK);
    helper->memory = memory;
    helper->memory_bytes = MEMORY_BYTES;
    return 0;
}

static void memory_unmap(struct helper *helper)
{
    void *memory = __atomic_exchange_n(&helper->memory, NULL, __ATOMIC_RELAXED);
    if (memory != NULL)
        sys_munmap(memory, helper->memory_bytes);
    helper->memory_is_fresh = false;
}

/* Makes a task of the helper's kind, with all signals blocked: it must not run a handler of the
 * app's. 0 or -errno. */
static int task_make(struct helper *helper)
{
    uint8_t *stack_top = helper->memory + GUARD_BYTES + STACK_BYTES;
    void *thread_pointer = stack_top + ARCH_TLS_BELOW_BYTES;
    bool apart = helper->kind == HELPER_APART;
    uint64_t all = ~0ull, before;
    arch_tls_prepare(thread_pointer);
    sys4(SYS_rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    long pid =
        arch_clone(apart ? FLAGS_APART : FLAGS_THREAD, stack_top, (int *)&helper->tid,
                   (int *)&helper->tid, thread_pointer, apart ? entry_apart : entry_thread, helper);
    sys4(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    return pid < 0 ? (int)pid : 0;
}

/* What the thread says of being apart. 0: it has said nothing within the time, or ended before. */
static uint32_t apart_answer(const struct helper *helper)
{
    const struct timespec part = {0, THREAD_PART_NS};
    uint64_t end_ns = sys_clock_ns(CLOCK_MONOTONIC) + THREAD_WAIT_NS;
    while (__atomic_load_n(&helper->is_apart, __ATOMIC_ACQUIRE) == 0 &&
           __atomic_load_n(&helper->tid, __ATOMIC_ACQUIRE) != 0 &&
           sys_clock_ns(CLOCK_MONOTONIC) < end_ns)
        sys4(SYS_futex, &helper->is_apart, FUTEX_WAIT, 0, &part);
    return __atomic_load_n(&helper->is_apart, __ATOMIC_ACQUIRE);
}

/* A thread that can't have a file table of its own ends at once; one that gets no processor may
 * come to it later. 0 or -errno. */
static int thread_make(struct helper *helper)
{
    helper->kind = HELPER_THREAD;
    int result = task_make(helper);
    if (result != 0)
        return result;
    uint32_t found = apart_answer(helper);
    if (found == 1 || (found == 0 && __atomic_load_n(&helper->tid, __ATOMIC_ACQUIRE) != 0))
        return 0;
    if (!helper_wait_end(helper, THREAD_WAIT_NS))
        helper->memory = NULL; /* it may still run on it */
    return found != 0 ? (int)found : -ESRCH;
}

int helper_start(struct helper *helper, enum helper_kind wanted, void (*run)(void *context),
                 void *context, enum helper_stderr its_stderr)
{
    int result = helper->memory_is_fresh ? 0 : memory_map(helper);
    if (result != 0)
        return result;
    helper->memory_is_fresh = false;
    helper->kind = wanted;
    helper->run = run;
    helper->its_stderr = its_stderr;
    helper->context = context;
    helper->app_pid = (pid_t)sys0(SYS_getpid);
    result = wanted == HELPER_APART ? task_make(helper) : -ENOTSUP;
    if (result != 0)
        result = thread_make(helper);
    if (result != 0)
        memory_unmap(helper);
    return result;
}

void helper_wait_apart(struct helper *helper)
{
    uint64_t end_ns = 0;
    while (__atomic_load_n(&helper->is_apart, __ATOMIC_ACQUIRE) == 0) {
        uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        end_ns = end_ns != 0 ? end_ns : now_ns + APART_WAIT_NS;
        if (now_ns >= end_ns)
            return;
        const struct timespec left = {0, (long)(end_ns - now_ns)};
        sys4(SYS_futex, &helper->is_apart, FUTEX_WAIT, 0, &left);
    }
}

void helper_wake(struct helper *helper)
{
    __atomic_add_fetch(&helper->wakes, 1, __ATOMIC_RELEASE);
    sys3(SYS_futex, &helper->wakes, FUTEX_WAKE, 1);
}

bool helper_wait_end(struct helper *helper, uint64_t timeout_ns)
{
    uint64_t end_ns = sys_clock_ns(CLOCK_MONOTONIC) + timeout_ns;
    for (;;) {
        uint32_t tid = __atomic_load_n(&helper->tid, __ATOMIC_ACQUIRE);
        uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        if (tid == 0 || now_ns >= end_ns)
            return tid == 0;
        struct timespec left = {(time_t)((end_ns - now_ns) / 1000000000u),
                                (long)((end_ns - now_ns) % 1000000000u)};
        sys4(SYS_futex, &helper->tid, FUTEX_WAIT, tid, &left);
    }
}

void helper_reap(const struct helper *helper, pid_t pid)
{
    if (helper->kind == HELPER_APART)
        sys4(SYS_wait4, pid, NULL, __WCLONE, NULL);
}

void helper_free(struct helper *helper)
{
    memory_unmap(helper);
}

void helper_forked(struct helper *copy)
{
    struct helper forked = {.pause_wanted = copy->pause_wanted};
    if (copy->memory_is_wiped && copy->memory != NULL) {
        forked.memory = copy->memory;
        forked.memory_bytes = copy->memory_bytes;
        forked.memory_is_wiped = forked.memory_is_fresh = true;
    }
    *copy = forked;
}

bool helper_is_child(const struct helper *helper)
{
    siginfo_t info;
    pid_t pid = (pid_t)__atomic_load_n(&helper->tid, __ATOMIC_RELAXED);
    return pid == 0 || helper->kind != HELPER_APART ||
           sys5(SYS_waitid, P_PID, pid, &info, WEXITED | WNOHANG | WNOWAIT | __WCLONE, NULL) == 0;
}

void helper_nudge(struct helper *helper)
{
    sys3(SYS_futex, &helper->wakes, FUTEX_WAKE, 1);
}

void helper_sleep(struct helper *helper, uint32_t wakes, uint64_t timeout_ns)
{
    struct timespec timeout = {(time_t)(timeout_ns / 1000000000u),
                               (long)(timeout_ns % 1000000000u)};
    sys4(SYS_futex, &helper->wakes, FUTEX_WAIT, wakes, &timeout);
}

/* Has the process's first thread ended? It stays listed as long as there is another. */
static bool first_thread_is_gone(void)
{
    char text[512];
    int fd = sys_open("/proc/self/stat", O_RDONLY, 0);
    long bytes = fd < 0 ? fd : sys_read(fd, text, sizeof text);
    sys_close(fd);
    /* PID (NAME) STATE ..., where the name may hold anything */
    while (bytes > 0 && text[bytes - 1] != ')')
        bytes--;
    return bytes > 0 && bytes + 2 < (long)sizeof text && text[bytes + 1] == 'Z';
}

/* Is the helper, a thread, the last one of its process? Nothing else would end it then. */
static bool thread_is_last(void)
{
    struct stat tasks;
    const unsigned own_links = 2, first_and_us = 2;
    return sys4(SYS_newfstatat, AT_FDCWD, "/proc/self/task", &tasks, 0) == 0 &&
           tasks.st_nlink <= own_links + first_and_us && first_thread_is_gone();
}

bool helper_app_is_gone(const struct helper *helper)
{
    if (helper->kind == HELPER_THREAD)
        return thread_is_last();
    return (pid_t)sys0(SYS_getppid) != helper->app_pid;
}

uint64_t helper_cpu_in_app_ns(const struct helper *helper)
{
    return helper->kind == HELPER_THREAD ? sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) : 0;
}

void helper_beat(struct helper *helper)
{
    helper->beats++;
}

void helper_last_work(struct helper *helper)
{
    helper->is_last_work = true;
}
