/*
 * Enters seccomp in the way argv[1], with a filter that kills for every system call that the
 * program does not make itself, as real programs have them; then burns in inside(), argv[2] us, in
 * this thread and, where the way says so, in others; and ends.
 *
 *   prctl, syscall   by that function of libc; ends by return from main
 *   generic          prctl's way, by syscall
 *   all              by syscall, for all threads at once, with a filter that allows everything
 *   raw              by no function of libc; a pause of 200 ms lets it be noticed; then as above
 *   trap             the filter sends SIGSYS instead
 *   threads          argv[3] threads are made and joined inside
 *   thread           a thread enters and ends, and the program outside goes on
 *   calls            the calls of selfsample.h are made inside
 *   fork             two children compute inside
 *   strict           seccomp's strict mode; ends by the raw call
 *   refused          tries to enter with a filter that is none, then goes on as if nothing was
 *   privs            no_new_privs alone
 *   exec             a filter that kills for perf_event_open alone, then runs argv[3] ...
 *   bear             a filter that allows everything, then the same
 *
 * Build: -pthread
 */
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "burn.h"
#include "rawcall.h"
#include "../../include/selfsample.h"

BURNER(outside)

/* Reading the clock of a thread is a system call, which strict mode has not; about so much then. */
static long turns_a_ms;

OWN_FRAME void inside(long us);
OWN_FRAME void inside(long us)
{
    if (turns_a_ms != 0)
        spin(us / 1000 * turns_a_ms);
    else
        burn_us(us);
    NOT_LAST();
}

static void turns_measure(void)
{
    long turns = 2000000, start_ns = thread_cpu_ns();

    spin(turns);
    turns_a_ms = turns / ((thread_cpu_ns() - start_ns) / 1000 + 1) * 1000;
}

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What this program and libc under it need once inside: I/O, memory of stacks, making and joining
 * threads, forking, sleeping, the end. */
static const int allowed[] = {
    SYS_read, SYS_write, SYS_exit,       SYS_exit_group,      SYS_rt_sigreturn,
    SYS_brk,  SYS_fstat, SYS_newfstatat, SYS_clock_nanosleep, SYS_clock_gettime,
};
static const int allowed_threads[] = {
    SYS_clone,        SYS_clone3,    SYS_set_robust_list, SYS_rseq,    SYS_rt_sigprocmask,
    SYS_mmap,         SYS_mprotect,  SYS_munmap,          SYS_madvise, SYS_futex,
    SYS_rt_sigaction, SYS_getrandom, SYS_prlimit64,
};
static const int allowed_fork[] = {SYS_clone, SYS_set_robust_list, SYS_waitid, SYS_rt_sigprocmask};

static struct sock_filter code[64];
static unsigned short length;

static void put(struct sock_filter instruction)
{
    code[length++] = instruction;
}

static void allow(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, numbers[i], 0, 1));
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
    }
}

static void fail(const char *what)
{
    perror(what);
    _exit(9);
}

static void filter_make(const char *way)
{
    unsigned action = strcmp(way, "trap") == 0 ? SECCOMP_RET_TRAP : SECCOMP_RET_KILL_PROCESS;

    put((struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)));
    if (strcmp(way, "bear") == 0 || strcmp(way, "all") == 0) {
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        return;
    }
    if (strcmp(way, "exec") == 0) {
        put((struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_perf_event_open, 0, 1));
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
        put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        return;
    }
    allow(allowed, COUNT(allowed));
    if (strcmp(way, "threads") == 0 || strcmp(way, "thread") == 0)
        allow(allowed_threads, COUNT(allowed_threads));
    if (strcmp(way, "fork") == 0)
        allow(allowed_fork, COUNT(allowed_fork));
    put((struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action));
}

static void enter(const char *way)
{
    struct sock_fprog program;

    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        fail("no_new_privs");
    if (strcmp(way, "privs") == 0)
        return;
    filter_make(way);
    program = (struct sock_fprog){.len = length, .filter = code};
    if (strcmp(way, "strict") == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) != 0)
            fail("strict");
    } else if (strcmp(way, "refused") == 0) {
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_STRICT, 1, NULL) != -1 || errno != EINVAL)
            fail("strict with a flag");
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1 || errno != EFAULT)
            fail("no filter");
        program.len = 0;
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != -1 || errno != EINVAL)
            fail("empty filter");
    } else if (strcmp(way, "raw") == 0) {
        if (raw(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, (long)&program) != 0)
            fail("raw");
        usleep(200000);
    } else if (strcmp(way, "prctl") == 0) {
        if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            fail("prctl");
    } else if (strcmp(way, "generic") == 0) {
        if (syscall(SYS_prctl, PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
            fail("prctl by syscall");
    } else if (strcmp(way, "all") == 0) {
        if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) != 0)
            fail("all threads");
    } else if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) != 0) {
        fail("seccomp");
    }
}

static void *burn(void *us)
{
    inside((long)us);
    return NULL;
}

static void *enter_and_burn(void *us)
{
    enter("thread");
    inside((long)us);
    return NULL;
}

static void expect(int got, int wanted)
{
    if (got != wanted && got != -ENOSYS)
        exit(6);
}

static void calls(void)
{
    expect(selfsample_label("known before"), 0);
    enter("calls");
    expect(selfsample_label("known now"), 0);
    expect(selfsample_start(), -EBUSY);
    expect(selfsample_pause(), -ESRCH);
    expect(selfsample_resume(), -ESRCH);
    expect(selfsample_snapshot("x"), -ESRCH);
    expect(selfsample_stop(), -ESRCH);
}

static void threads(long us, int count)
{
    pthread_t ids[64];

    for (int i = 0; i < count; i++)
        if (pthread_create(&ids[i], NULL, burn, (void *)us) != 0)
            fail("pthread_create");
    for (int i = 0; i < count; i++)
        pthread_join(ids[i], NULL);
}

static void children(long us)
{
    siginfo_t info;

    for (int i = 0; i < 2; i++)
        if (fork() == 0) {
            inside(us);
            exit(3);
        }
    for (int i = 0; i < 2; i++)
        if (waitid(P_ALL, 0, &info, WEXITED) != 0 || info.si_status != 3)
            fail("child");
}

int main(int argc, char **argv)
{
    const char *way = argv[1];
    long us = argument(argc, argv, 2, 100000);

    if (strcmp(way, "strict") == 0)
        turns_measure();
    outside(us);
    if (strcmp(way, "refused") == 0)
        threads(us, 2);
    if (strcmp(way, "thread") == 0) {
        pthread_t id;
        if (pthread_create(&id, NULL, enter_and_burn, (void *)us) != 0)
            fail("pthread_create");
        pthread_join(id, NULL);
    } else if (strcmp(way, "calls") == 0) {
        calls();
    } else {
        enter(way);
    }
    if (strcmp(way, "exec") == 0 || strcmp(way, "bear") == 0) {
        execv(argv[3], argv + 3);
        fail(argv[3]);
    }
    inside(us);
    if (strcmp(way, "threads") == 0 || strcmp(way, "refused") == 0)
        threads(us, (int)argument(argc, argv, 3, 2));
    if (strcmp(way, "fork") == 0)
        children(us);
    if (write(1, "done\n", 5) != 5)
        return 8;
    if (strcmp(way, "strict") == 0)
        raw(SYS_exit, 5, 0, 0);
    return 5;
}
