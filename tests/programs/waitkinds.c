/*
 * Waits for all children of all kinds, as tracers do, until there is none: with none at all, with
 * forked ones, ones of clone without a signal, and one that is traced. Prints how many each wait
 * found, and what ended it. Each child computes for 10 ms. With argv[1] it only looks, for a child
 * of clone that sleeps for so many ms, and leaves it there; or, where that is "late", it waits
 * while a profiler's helper, stopped as soon as it is there, has not got on for 200 ms.
 */
#include "burn.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#define STACK_BYTES 65536
#define CLONES      2

BURNER(in_child)

static char stacks[CLONES][STACK_BYTES] __attribute__((aligned(16)));

static int cloned(void *unused)
{
    (void)unused;
    in_child(10000);
    return 0;
}

static void make(int forks, int clones)
{
    for (int i = 0; i < forks; i++)
        if (fork() == 0) {
            in_child(10000);
            _exit(i);
        }
    for (int i = 0; i < clones; i++)
        clone(cloned, stacks[i] + STACK_BYTES, CLONE_VM, NULL);
}

static int by_waitpid(int options)
{
    return waitpid(-1, NULL, options) > 0;
}

static int by_wait3(int options)
{
    struct rusage usage;

    return wait3(NULL, options, &usage) > 0;
}

static int by_wait4(int options)
{
    struct rusage usage;

    return wait4(-1, NULL, options, &usage) > 0;
}

static int by_waitid(int options)
{
    return waitid(P_ALL, 0, NULL, WEXITED | options) == 0;
}

static void wait_all(const char *what, int (*wait_one)(int), int options)
{
    int found = 0;

    errno = 0;
    while (wait_one(options))
        found++;
    printf("%s: %d, %s\n", what, found, strerror(errno));
}

static void wait_for_one_that_lives(void)
{
    pid_t child = fork();

    if (child == 0) {
        pause();
        _exit(1);
    }
    printf("at once: %d\n", waitpid(-1, NULL, __WALL | WNOHANG));
    kill(child, SIGKILL);
    wait_all("killed", by_wait3, __WALL);
}

/* A child that stops itself and is set going: two waits find it. (Others find it at the signals of
 * a profiler's timers, as tracers see all signals; it gets these.) */
static void trace_one(void)
{
    int status, found = 0;
    pid_t child = fork(), pid;

    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, NULL, NULL);
        raise(SIGSTOP);
        _exit(4);
    }
    while ((pid = waitpid(-1, &status, __WALL)) > 0) {
        int signal = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
        bool timers = signal >= SIGRTMIN;
        found += pid == child && !timers;
        ptrace(PTRACE_CONT, child, NULL, timers ? (void *)(intptr_t)signal : NULL);
    }
    printf("traced: %d, %s, %d\n", found, strerror(errno), WEXITSTATUS(status));
}

static int asleep(void *ms)
{
    usleep((useconds_t)(*(long *)ms * 1000));
    return 0;
}

static int peek(long ms)
{
    siginfo_t info;
    pid_t child = clone(asleep, stacks[0] + STACK_BYTES, CLONE_VM, &ms);

    if (waitid(P_ALL, 0, &info, WEXITED | WNOWAIT | __WALL) != 0)
        return 1;
    printf("%s\n", info.si_pid == child ? "the child" : "another");
    return 6;
}

static bool is_helper(pid_t pid)
{
    char path[64], name[32] = "";

    snprintf(path, sizeof(path), "/proc/%d/comm", pid);
    FILE *file = fopen(path, "r");
    if (file && fscanf(file, "%31s", name) != 1)
        name[0] = 0;
    if (file)
        fclose(file);
    return strcmp(name, "selfsample") == 0;
}

/* Sends SIGNAL to the helper among the children of PARENT. */
static void helper_signal(pid_t parent, int signal)
{
    char path[64];
    int pid;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", parent, parent);
    FILE *file = fopen(path, "r");
    while (file && fscanf(file, "%d", &pid) == 1)
        if (is_helper(pid))
            kill(pid, signal);
    if (file)
        fclose(file);
}

/* Who sets it going is no child of ours, but one of a child that has ended. */
static void wait_before_it_is_settled(void)
{
    pid_t parent = getpid();

    helper_signal(parent, SIGSTOP);
    pid_t child = fork();
    if (child == 0) {
        if (fork() == 0) {
            usleep(200000);
            helper_signal(parent, SIGCONT);
        }
        _exit(0);
    }
    waitpid(child, NULL, 0);
    wait_all("late", by_waitpid, __WALL);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 1 && strcmp(argv[1], "late") == 0) {
        wait_before_it_is_settled();
        return 0;
    }
    if (argc > 1)
        return peek(atol(argv[1]));
    wait_all("none", by_waitpid, __WALL);
    wait_all("no clone", by_waitpid, __WCLONE);
    make(3, 0);
    wait_all("forked", by_waitpid, __WALL);
    make(1, CLONES);
    wait_all("both", by_wait4, __WALL);
    make(0, CLONES);
    wait_all("forked, of clones", by_waitpid, 0);
    wait_all("clones", by_waitpid, __WCLONE);
    make(1, 1);
    wait_all("both", by_waitid, __WALL);
    wait_for_one_that_lives();
    trace_one();
    return 6;
}
