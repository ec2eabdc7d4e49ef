/* former: helpers that were there before an exec, played by children of the same kind. */
#include "former.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

/* A child that only those see who ask for children of clone, called NAME; it ends after US. */
static pid_t child_named(const char *name, useconds_t us)
{
    pid_t child = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);
    if (child != 0)
        return child;
    prctl(PR_SET_NAME, name);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const struct timespec time = {us / 1000000, us % 1000000 * 1000l};
    nanosleep(&time, NULL);
    syscall(SYS_exit_group, 0);
    __builtin_unreachable();
}

/* Has CHILD ended, and nobody taken leave of it? Waits for its end. */
static bool is_waited_for(pid_t child)
{
    siginfo_t info;
    return waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | __WCLONE) == 0;
}

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

TEST(those_that_have_ended_are_reaped_and_nobody_else)
{
    pid_t ours = child_named("selfsample", 0);
    REQUIRE(ours > 0 && is_waited_for(ours));
    former_reap();
    CHECK(!is_waited_for(ours));
    pid_t stranger = child_named("selfsamples", 0);
    REQUIRE(stranger > 0 && is_waited_for(stranger));
    former_reap();
    former_await();
    CHECK(is_waited_for(stranger));
    CHECK_I64(waitpid(stranger, NULL, __WCLONE), stranger);
    former_reap(); /* without any child */
    former_await();
}

/* Where the machine keeps it for longer than anybody waits, another one is tried. */
TEST(one_that_lives_is_waited_for)
{
    bool is_reaped = false;
    for (int i = 0; i < 10 && !is_reaped; i++) {
        pid_t ours = child_named("selfsample", 20000);
        REQUIRE(ours > 0);
        former_await();
        is_reaped = waitpid(ours, NULL, __WCLONE) == -1 && errno == ECHILD;
    }
    CHECK(is_reaped);
}

TEST(but_not_for_long)
{
    pid_t ours = child_named("selfsample", 100000000);
    REQUIRE(ours > 0);
    double start_s = now_s();
    former_await();
    CHECK(now_s() - start_s >= 0.09);
    CHECK_I64(waitpid(ours, NULL, __WCLONE | WNOHANG), 0);
    kill(ours, SIGKILL);
    CHECK_I64(waitpid(ours, NULL, __WCLONE), ours);
}

/* SIGCHLD as the kernel sends it for CHILD. */
static void signal_send(pid_t child)
{
    siginfo_t info = {.si_signo = SIGCHLD, .si_code = CLD_EXITED};
    info.si_pid = child;
    info.si_status = 7;
    CHECK_I64(syscall(SYS_rt_sigqueueinfo, getpid(), SIGCHLD, &info), 0);
}

static int pending_of(pid_t *pid)
{
    sigset_t set;
    siginfo_t info = {.si_signo = 0};
    const struct timespec at_once = {0, 0};
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    int signal = sigtimedwait(&set, &info, &at_once);
    *pid = info.si_pid;
    return signal > 0 ? info.si_status : -1;
}

TEST(a_blocked_signal_of_its_end_is_taken_back_and_no_other)
{
    pid_t told = 0, stranger = getppid();
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(SIG_BLOCK, &set, &before);
    pid_t ours = child_named("selfsample", 0);
    REQUIRE(ours > 0 && is_waited_for(ours));
    signal_send(ours);
    former_await();
    CHECK_I64(pending_of(&told), -1);
    ours = child_named("selfsample", 0);
    REQUIRE(ours > 0 && is_waited_for(ours));
    signal_send(stranger);
    former_await();
    CHECK_I64(pending_of(&told), 7);
    CHECK_I64(told, stranger);
    sigprocmask(SIG_SETMASK, &before, NULL);
}
