/* Takes leave of former programs' helpers. Runs in the app's thread. */
#include "former.h"

#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>

#include "helper.h"
#include "kernel_sigaction.h"
#include "proc_tasks.h"
#include "sys.h"

#define FORMER_MAX    16 /* a bound; there is hardly more than one */
#define AWAIT_NS      100000000u
#define PART_NS_LEAST 50000l /* between two looks; each time twice as long, up to: */
#define PART_NS_MOST  4000000l

enum child { CHILD_NONE, CHILD_LIVES, CHILD_ENDED };

/* Is there a child that can be waited for as one of ours can? One that has ended is *PID, and
 * stays. */
static enum child clone_child_look(pid_t *pid)
{
    siginfo_t info = {.si_signo = 0};
    if (sys5(SYS_waitid, P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WCLONE, NULL) != 0)
        return CHILD_NONE;
    *pid = info.si_pid;
    return info.si_pid > 0 ? CHILD_ENDED : CHILD_LIVES;
}

static bool is_named_as_ours(pid_t pid)
{
    char path[PROC_PATH_BYTES], name[sizeof HELPER_NAME];
    proc_path(path, pid, "/comm");
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return false;
    long bytes = sys_read(fd, name, sizeof name);
    sys_close(fd);
    return bytes == sizeof name && __builtin_memcmp(name, HELPER_NAME "\n", sizeof name) == 0;
}

static bool take_leave(pid_t pid)
{
    return is_named_as_ours(pid) && sys4(SYS_wait4, pid, NULL, __WCLONE | WNOHANG, NULL) == pid;
}

/* Takes SIGCHLD back if it is the end of PID that it waits to tell of. */
static void signal_take_back(pid_t pid)
{
    uint64_t set = kernel_signal_bit(SIGCHLD), blocked = 0;
    struct timespec at_once = {0, 0};
    siginfo_t info;
    sys4(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked);
    if ((blocked & set) == 0 ||
        sys4(SYS_rt_sigtimedwait, &set, &info, &at_once, sizeof set) != SIGCHLD)
        return;
    if (info.si_pid != pid)
        sys3(SYS_rt_sigqueueinfo, sys0(SYS_getpid), SIGCHLD, &info);
}

void former_reap(void)
{
    pid_t pid;
    for (int i = 0; i < FORMER_MAX && clone_child_look(&pid) == CHILD_ENDED && take_leave(pid); i++)
        continue;
}

/* The kernel writes what is left into a time that is slept. */
static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    sys5(SYS_ppoll, NULL, 0, &time, NULL, 0);
}

void former_await(void)
{
    long part_ns = PART_NS_LEAST;
    enum child child;
    uint64_t end_ns = 0, now_ns;
    pid_t pid;
    while ((child = clone_child_look(&pid)) != CHILD_NONE) {
        if (child == CHILD_ENDED && !take_leave(pid))
            return;
        if (child == CHILD_ENDED) {
            signal_take_back(pid);
            continue;
        }
        now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        end_ns = end_ns != 0 ? end_ns : now_ns + AWAIT_NS;
        if (now_ns >= end_ns)
            return;
        sleep_ns(part_ns);
        part_ns = part_ns < PART_NS_MOST / 2 ? 2 * part_ns : PART_NS_MOST;
    }
}
