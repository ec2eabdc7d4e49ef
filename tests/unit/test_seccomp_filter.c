/*
 * seccomp_filter: children that set the filter and then try calls, those of a profiler and those of
 * somebody who has taken the helper over.
 */
#include "seccomp_filter.h"

#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "refusal.h"
#include "sys.h"

/* Runs TRY in a child under the filter; its result, 1 to 125, or 126 where there is no filter. */
static int under_filter(int (*attempt)(void))
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        /* Not _exit: a sanitizer would make calls of its own before it. */
        sys1(SYS_exit_group, seccomp_filter_install() != 0 ? 126 : attempt());
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

#define REFUSED(call)                                                                              \
    do {                                                                                           \
        count++;                                                                                   \
        if ((call) != -EPERM)                                                                      \
            return count;                                                                          \
    } while (0)

static char bytes[4096];

static int attack(void)
{
    int count = 0;
    char *const arguments[] = {"/bin/true", NULL};
    const struct rlimit limit = {0, 0};
    struct iovec mine = {bytes, sizeof bytes}, theirs = {bytes, sizeof bytes};
    REFUSED(sys3(SYS_execve, arguments[0], arguments, environ));
    REFUSED(sys5(SYS_execveat, AT_FDCWD, arguments[0], arguments, environ, 0));
    REFUSED(sys5(SYS_clone, SIGCHLD, 0, 0, 0, 0));
#ifdef SYS_fork /* young architectures have but clone */
    REFUSED(sys0(SYS_fork));
    REFUSED(sys0(SYS_vfork));
#endif
    REFUSED(sys2(SYS_clone3, NULL, 0));
    REFUSED(sys3(SYS_socket, AF_UNIX, SOCK_STREAM, 0));
    REFUSED(sys3(SYS_connect, 0, NULL, 0));
    REFUSED(sys2(SYS_kill, getppid(), 0));
    REFUSED(sys2(SYS_tkill, getppid(), 0));
    REFUSED(sys3(SYS_tgkill, getppid(), getppid(), 0));
    REFUSED(sys3(SYS_rt_sigqueueinfo, getppid(), 0, NULL));
    REFUSED(sys4(SYS_ptrace, PTRACE_ATTACH, getppid(), NULL, NULL));
    REFUSED(sys6(SYS_process_vm_readv, getppid(), &mine, 1, &theirs, 1, 0));
    REFUSED(sys6(SYS_process_vm_writev, getpid(), &mine, 1, &theirs, 1, 0));
    REFUSED((long)sys_mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    REFUSED(sys3(SYS_mprotect, bytes, 4096, PROT_READ | PROT_EXEC));
    REFUSED(sys4(SYS_pkey_mprotect, bytes, 4096, PROT_READ | PROT_EXEC, -1));
    REFUSED(sys3(SYS_ioctl, 2, 0x5412 /* TIOCSTI: types into the terminal */, bytes));
    REFUSED(sys2(SYS_prctl, PR_SET_NAME, "other"));
    REFUSED(sys2(SYS_prctl, PR_SET_SECUREBITS, 0));
    REFUSED(sys4(SYS_prlimit64, 0, RLIMIT_CORE, &limit, NULL));
    REFUSED(sys4(SYS_prlimit64, getppid(), RLIMIT_CORE, NULL, &limit));
    REFUSED(sys1(SYS_unshare, CLONE_NEWUSER));
    REFUSED(sys2(SYS_setns, 0, 0));
    REFUSED(sys1(SYS_chroot, "/"));
    REFUSED(sys1(SYS_setuid, 0));
    REFUSED(sys3(SYS_bpf, 0, NULL, 0));
    REFUSED(sys3(SYS_finit_module, 0, "", 0));
    REFUSED(sys4(SYS_fchmodat, AT_FDCWD, "/nowhere", 04755, 0));
    REFUSED(sys5(SYS_fchownat, AT_FDCWD, "/nowhere", 0, 0, 0));
    REFUSED(sys2(SYS_truncate, "/nowhere", 0));
    REFUSED(sys2(SYS_io_uring_setup, 1, NULL));
    return 0;
}

TEST(what_a_helper_has_no_use_for_is_refused)
{
    int refused = under_filter(attack);
    if (refused == 126)
        SKIP("no seccomp filters here");
    CHECK_I64(refused, 0);
}

#ifdef __x86_64__

/* Calls of the 32-bit table have other numbers: 11 is execve there, 20 getpid. */
static long getpid_by_another_table(void)
{
    long result = 20;
    __asm__ volatile("int $0x80" : "+a"(result) : : "memory", "r8", "r9", "r10", "r11");
    return result;
}

static int try_another_table(void)
{
    getpid_by_another_table();
    return 0;
}

static bool another_table_is_a_fault; /* the kernel has none */

static int attack_by_another_table(void)
{
    long result = another_table_is_a_fault ? -ENOSYS : getpid_by_another_table();
    if (result != -EPERM && result != -ENOSYS)
        return 1;
    return sys0(0x40000000 | SYS_getpid) > 0 ? 2 : 0;
}

TEST(other_tables_of_calls_are_refused)
{
    another_table_is_a_fault = in_child(try_another_table) != 0;
    int refused = under_filter(attack_by_another_table);
    if (refused == 126)
        SKIP("no seccomp filters here");
    CHECK_I64(refused, 0);
}

#endif

#define WORKS(call)                                                                                \
    do {                                                                                           \
        count++;                                                                                   \
        if ((long)(call) < 0)                                                                      \
            return count;                                                                          \
    } while (0)

static int work(void)
{
    int count = 0, fd;
    char read_back[8];
    struct rlimit limit;
    struct iovec mine = {read_back, sizeof read_back}, theirs = {bytes, sizeof read_back};
    WORKS(fd = sys_open("/proc/self/status", O_RDONLY, 0));
    WORKS(sys_read(fd, read_back, sizeof read_back));
    WORKS(sys_pread(fd, read_back, sizeof read_back, 0));
    WORKS(sys6(SYS_process_vm_readv, getpid(), &mine, 1, &theirs, 1, 0));
    WORKS((long)sys_mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    WORKS(sys4(SYS_prlimit64, 0, RLIMIT_MEMLOCK, NULL, &limit));
    WORKS(sys2(SYS_prctl, PR_SET_PDEATHSIG, SIGCHLD));
    WORKS(sys3(SYS_setresuid, -1, -1, -1));
    WORKS(sys1(SYS_dup, fd));
    WORKS(sys1(SYS_close, fd));
    return sys3(SYS_ioctl, -1, '$' << 8, 0) == -EBADF ? 0 : 100;
}

TEST(a_profilers_work_goes_on)
{
    int failed = under_filter(work);
    if (failed == 126)
        SKIP("no seccomp filters here");
    CHECK_I64(failed, 0);
}

static int no_new_privs(void)
{
    return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == -1 ? 0 : 1; /* prctl of that kind is refused */
}

TEST(the_parent_is_left_as_it_is)
{
    if (under_filter(no_new_privs) == 126)
        SKIP("no seccomp filters here");
    CHECK_I64(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0), 0);
    CHECK_I64(prctl(PR_GET_SECCOMP, 0, 0, 0, 0), 0);
}

static void nothing(int signal)
{
    (void)signal;
}

/* Signals, each of which interrupts a wait. */
static void interrupt_often(void)
{
    const struct sigaction action = {.sa_handler = nothing};
    const struct itimerval often = {{0, 200}, {0, 200}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
}

/* In a child: a filter that answers CALL with ACTION, then the question. */
static int inherited(int call, uint32_t action)
{
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        const struct rlimit no_core = {0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        interrupt_often();
        bool filtered = filter_call((unsigned)call, action) == 0;
        sys1(SYS_exit_group, filtered ? seccomp_filter_inherited_kills() : 126);
    }
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK(WIFEXITED(status));
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(inherited_filters_are_tried_by_a_child)
{
    int kills = inherited(SYS_perf_event_open, SECCOMP_RET_KILL_PROCESS);
    if (kills == 126)
        SKIP("no seccomp filters here");
    CHECK_I64(kills, 1);
    CHECK_I64(inherited(SYS_perf_event_open, SECCOMP_RET_KILL_THREAD), 1);
    CHECK_I64(inherited(SYS_perf_event_open, SECCOMP_RET_TRAP), 1);
    CHECK_I64(inherited(SYS_perf_event_open, SECCOMP_RET_ERRNO | EPERM), 0);
    CHECK_I64(seccomp_filter_inherited_kills(), 0);
    CHECK(waitpid(-1, NULL, __WALL) == -1 && errno == ECHILD);
}

/* Those that the app's threads make alone, too. */
TEST(every_call_is_tried)
{
    static const int calls[] = {SYS_futex,           SYS_waitid,           SYS_readlinkat,
                                SYS_timer_delete,    SYS_clock_getres,     SYS_sched_yield,
                                SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo};
    if (inherited(SYS_futex, SECCOMP_RET_KILL_PROCESS) == 126)
        SKIP("no seccomp filters here");
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        CHECK_I64(inherited(calls[i], SECCOMP_RET_KILL_PROCESS), 1);
}
