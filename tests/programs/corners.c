/*
 * Waits, programs, threads and identities, with odd arguments and at odd moments: see corners.h.
 * argv[1]: that part alone.
 * Build: -pthread -ldl
 */
#include "corners.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <threads.h>

BURNER(after_vfork)

extern char **environ;

static char *const true_words[] = {"true", NULL};

int capset(void *header, const void *data);

/* A child that ends at once, to be waited for by whoever comes. */
static void dead_child(void)
{
    siginfo_t info;
    pid_t pid = fork();
    if (pid == 0)
        _exit(3);
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
}

static void waits(void)
{
    static const int options[] = {0,       WNOHANG,          __WALL,    __WALL | WNOHANG,  __WCLONE,
                                  1 << 20, __WALL | 1 << 20, WUNTRACED, __WALL | WUNTRACED};
    int status = 0;
    siginfo_t info;
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        printf("options %#x\n", (unsigned)options[i]);
        SAY(waitpid(-1, &status, options[i]));
        SAY(wait3(&status, options[i], NULL));
        SAY(wait4(-1, NULL, options[i], NULL));
        SAY(waitid(P_ALL, 0, &info, options[i]));
        SAY(waitid(P_ALL, 0, NULL, options[i] | WEXITED));
    }
    SAY(waitpid(0, &status, __WALL));
    SAY(waitpid(1, &status, __WALL));
    SAY(waitpid(INT_MIN, &status, 0));
    SAY(waitid((idtype_t)99, 0, &info, WEXITED));
    for (int i = 0; i < 2; i++) {
        dead_child();
        SAY(waitpid(-1, nowhere, i == 0 ? 0 : __WALL));
        dead_child();
        SAY(waitid(P_ALL, 0, nowhere, WEXITED | (i == 0 ? 0 : __WALL)));
        dead_child();
        SAY(wait4(-1, NULL, i == 0 ? 0 : __WALL, nowhere));
        dead_child();
        SAY(waitid(P_ALL, 0, NULL, WEXITED | (i == 0 ? 0 : __WALL)));
    }
}

static void waits_that_are_interrupted(void)
{
    static const int options[] = {0, __WALL, __WALL | WUNTRACED};
    siginfo_t info;
    int status;
    pid_t pid = fork();
    if (pid == 0)
        pause();
    for (unsigned i = 0; i < sizeof options / sizeof *options; i++) {
        SAY_INTERRUPTED(waitpid(-1, &status, options[i]));
        SAY_INTERRUPTED(waitid(P_ALL, 0, &info, options[i] | WEXITED));
    }
    kill(pid, SIGKILL);
    SAY(waitpid(-1, &status, __WALL) == pid);
    printf("killed by %d\n", WTERMSIG(status));
}

/* An error that dlerror has yet to tell, over calls that a profiler looks up by dlsym. */
#define SAY_PENDING(call)                                                                          \
    do {                                                                                           \
        dlopen("/nonexistent", RTLD_NOW);                                                          \
        SAY(call);                                                                                 \
        printf("%s\n", dlerror() != NULL ? "still pending" : "forgotten");                         \
    } while (0)

static void *end_at_once(void *unused)
{
    return unused;
}

static int thrd_end_at_once(void *unused)
{
    (void)unused;
    return 0;
}

static void errors_of_the_linker(void)
{
    pthread_t thread;
    thrd_t other;
    sigset_t set;
    SAY_PENDING(pthread_create(&thread, NULL, end_at_once, NULL));
    pthread_join(thread, NULL);
    SAY_PENDING(thrd_create(&other, thrd_end_at_once, NULL));
    thrd_join(other, NULL);
    SAY_PENDING(sigprocmask(SIG_BLOCK, NULL, &set));
    SAY_PENDING(signal(SIGUSR1, SIG_IGN) == SIG_DFL);
    SAY_PENDING(sigaltstack(NULL, NULL));
    SAY_PENDING(waitid(P_ALL, 0, NULL, WEXITED));
    SAY_PENDING(setuid(getuid()));
    SAY_PENDING(system("exit 3"));
    SAY_PENDING(execv("/nonexistent", true_words));
    SAY_PENDING(prctl(PR_GET_DUMPABLE));
    SAY_PENDING(syscall(SYS_getpid) == getpid());
}

static void programs(void)
{
    char *const no_words[] = {NULL};
    SAY(execve("/nonexistent", true_words, environ));
    SAY(execve("/tmp", true_words, environ));
    SAY(execve(nowhere, true_words, environ));
    SAY(execve("/bin/true", nowhere, environ));
    SAY(execv("", true_words));
    SAY(execvp("", true_words));
    SAY(execvp("no-such-program", true_words));
    SAY(execvpe("no-such-program", true_words, environ));
    SAY(execl("/nonexistent", "a", "b", NULL));
    SAY(execlp("no-such-program", "a", NULL));
    SAY(execle("/nonexistent", "a", NULL, environ));
    SAY(fexecve(-1, true_words, environ));
    SAY(fexecve(0, null, environ));
    SAY(execveat(-1, "true", true_words, environ, 0));
    SAY(execveat(AT_FDCWD, "/bin/true", true_words, environ, 1 << 30));
    for (int i = 0; i < 3; i++) {
        int status = 0;
        fflush(stdout);
        pid_t pid = vfork();
        if (pid == 0) {
            if (i == 0)
                execle("/bin/sh", "sh", "-c", "echo $A; exit 4", NULL, (char *[]){"A=given", NULL});
            else if (i == 1)
                execlp("sh", "sh", "-c", "exit 5", NULL);
            else
                execv("/bin/true", no_words);
            _exit(1);
        }
        waitpid(pid, &status, 0);
        printf("status %#x\n", (unsigned)status);
    }
}

/* What a program sees that was executed so: --shown. */
static int shown(void)
{
    sigset_t set, ignored;
    struct sigaction action;
    sigemptyset(&ignored);
    for (int i = 1; i < NSIG; i++)
        if (sigaction(i, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigaddset(&ignored, i);
    sigprocmask(SIG_BLOCK, NULL, &set);
    say_mask(&set);
    say_mask(&ignored);
    printf("policy %d, leads %d %d\n", sched_getscheduler(0), getpgrp() == getpid(),
           getsid(0) == getpid());
    return 0;
}

static void spawned(const char *what, const posix_spawnattr_t *attributes)
{
    char *const words[] = {"corners", "--shown", NULL};
    pid_t pid = 0;
    int status = 0;
    printf("%s\n", what);
    fflush(stdout);
    SAY(posix_spawn(&pid, "/proc/self/exe", NULL, attributes, words, environ));
    SAY(waitpid(pid, &status, 0) == pid);
    printf("status %#x\n", (unsigned)status);
}

static void spawns(void)
{
    posix_spawnattr_t attributes;
    sigset_t set;
    pid_t pid = -5;
    struct sched_param parameter = {0};
    SAY(posix_spawn(&pid, "/nonexistent", NULL, NULL, true_words, environ));
    SAY(posix_spawnp(&pid, "no-such-program", NULL, NULL, true_words, environ));
    SAY(posix_spawnp(NULL, "true", NULL, NULL, true_words, environ));
    wait(NULL);
    printf("pid %d\n", pid);
    signal(SIGUSR2, SIG_IGN);
    spawned("as we are", NULL);
    posix_spawnattr_init(&attributes);
    sigfillset(&set);
    posix_spawnattr_setsigmask(&attributes, &set);
    posix_spawnattr_setsigdefault(&attributes, &set);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                              POSIX_SPAWN_SETPGROUP);
    spawned("all blocked", &attributes);
    posix_spawnattr_setschedpolicy(&attributes, SCHED_BATCH);
    posix_spawnattr_setschedparam(&attributes, &parameter);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSCHEDULER | POSIX_SPAWN_SETSID);
    spawned("in a session of its own", &attributes);
    sigprocmask(SIG_SETMASK, &set, NULL);
    spawned("what we block", NULL);
}

static void shells(void)
{
    FILE *pipe;
    char line[64] = "";
    SAY(system(NULL) != 0);
    SAY(system("exit 3"));
    SAY(system("kill -9 $$"));
    SAY(popen("true", "x") == NULL);
    SAY(popen("true", "rw") == NULL);
    fflush(stdout);
    pipe = popen("echo from the shell; exit 6", "re");
    if (pipe != NULL && fgets(line, sizeof line, pipe) != NULL)
        printf("%s", line);
    SAY(pclose(pipe));
}

/* Says how the thread was made, as far as it can see that itself. */
static void *attributes_say(void *unused)
{
    pthread_attr_t attributes;
    sigset_t set;
    cpu_set_t cpus;
    struct sched_param parameter;
    int policy = -1, state = -1;
    size_t bytes = 0, guard = 1;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getdetachstate(&attributes, &state);
    pthread_attr_getstacksize(&attributes, &bytes);
    pthread_attr_getguardsize(&attributes, &guard);
    pthread_attr_destroy(&attributes);
    pthread_getschedparam(pthread_self(), &policy, &parameter);
    sched_getaffinity(0, sizeof cpus, &cpus);
    pthread_sigmask(SIG_BLOCK, NULL, &set);
    printf("detached %d, stack %zu, guard %zu, policy %d, priority %d, %d processors, errno %d\n",
           state, bytes, guard, policy, parameter.sched_priority, CPU_COUNT(&cpus), errno);
    say_mask(&set);
    return unused;
}

static void thread_with(const pthread_attr_t *attributes)
{
    pthread_t thread;
    int result = pthread_create(&thread, attributes, attributes_say, NULL);
    if (result == 0)
        pthread_join(thread, NULL);
    printf("pthread_create: %d\n", result);
}

static int thrd_five(void *unused)
{
    (void)unused;
    return 5;
}

static void threads(void)
{
    pthread_attr_t attributes;
    cpu_set_t cpus;
    sigset_t set;
    struct sched_param parameter = {0};
    thrd_t thread;
    int result = 0;
    thread_with(NULL);
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    pthread_attr_setguardsize(&attributes, 0);
    thread_with(&attributes);
    pthread_attr_init(&attributes);
    sched_getaffinity(0, sizeof cpus, &cpus);
    for (int i = 0, kept = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &cpus) && kept++ > 0)
            CPU_CLR(i, &cpus);
    pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    sigfillset(&set);
    pthread_attr_setsigmask_np(&attributes, &set);
    thread_with(&attributes);
    CPU_ZERO(&cpus);
    pthread_attr_setaffinity_np(&attributes, sizeof cpus, &cpus);
    thread_with(&attributes);
    pthread_attr_init(&attributes);
    pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
    pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
    pthread_attr_setschedparam(&attributes, &parameter);
    thread_with(&attributes);
    sigprocmask(SIG_SETMASK, &set, NULL);
    thread_with(NULL);
    SAY(thrd_create(&thread, thrd_five, NULL));
    SAY(thrd_join(thread, &result));
    printf("%d\n", result);
}

static void identities(void)
{
    SAY(setreuid((uid_t)-1, (uid_t)-1));
    SAY(setregid((gid_t)-1, (gid_t)-1));
    SAY(setresuid((uid_t)-1, (uid_t)-1, (uid_t)-1));
    SAY(setresgid((gid_t)-1, (gid_t)-1, (gid_t)-1));
    SAY(setuid((uid_t)-1));
    SAY(setgid((gid_t)-1));
    SAY(seteuid((uid_t)-1));
    SAY(setegid((gid_t)-1));
    SAY(setgroups(1 << 20, nowhere));
    SAY(setgroups(1, nowhere));
    SAY(capset(NULL, NULL));
    SAY(capset(nowhere, NULL));
    SAY(seteuid(geteuid()));
    SAY(initgroups("nobody", 7) == 0 || errno == EPERM);
}

static void controls(void)
{
    SAY(prctl(-1, 0, 0, 0, 0));
    SAY(prctl(PR_GET_NAME, nowhere, 0, 0, 0));
    SAY(prctl(PR_SET_DUMPABLE, 2, 0, 0, 0));
    SAY(prctl(PR_SET_DUMPABLE, 0, 0, 0, 0));
    SAY(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_DUMPABLE, 1, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_DUMPABLE, 0, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_GET_DUMPABLE, 0, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_NAME, nowhere, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_PDEATHSIG, 1000, 0, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_SECCOMP, 99, nowhere, 0, 0));
    SAY(syscall(SYS_prctl, PR_SET_SECCOMP, 2, nowhere, 0, 0));
    SAY(prctl(PR_SET_DUMPABLE, 1, 0, 0, 0));
    SAY(prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
    SAY(prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
    SAY(prctl(PR_SET_SECCOMP, 99, NULL, 0, 0));
    SAY(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
    SAY(prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, NULL, 0, 0));
    SAY(prctl(PR_SET_SECCOMP, 2 /* SECCOMP_MODE_FILTER */, nowhere, 0, 0));
    SAY(syscall(-1));
    SAY(syscall(SYS_seccomp, 99, 0, NULL));
    SAY(syscall(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 1 << 30, nowhere));
    SAY(syscall(SYS_seccomp, 1 /* SECCOMP_SET_MODE_FILTER */, 0, nowhere));
    SAY(syscall(SYS_getpid) == getpid());
    SAY(syscall(SYS_mmap, NULL, 4096L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L) != -1);
    SAY(syscall(SYS_mmap, NULL, 0L, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0L));
}

static void *wait_any(void *unused)
{
    waitpid(-1, NULL, __WALL);
    return unused;
}

static void *wait_any_id(void *unused)
{
    siginfo_t info;
    waitid(P_ALL, 0, &info, WEXITED | __WALL);
    return unused;
}

static void *wait_signal(void *unused)
{
    sigset_t all;
    int number;
    sigfillset(&all);
    sigwait(&all, &number);
    return unused;
}

static void *wait_signal_information(void *unused)
{
    sigset_t all;
    siginfo_t info;
    sigfillset(&all);
    sigwaitinfo(&all, &info);
    return unused;
}

static void *wait_shell(void *unused)
{
    system("exec sleep 100");
    return unused;
}

/* Threads that are cancelled in their waits. */
static void cancels(void)
{
    static void *(*const bodies[])(void *) = {wait_any, wait_any_id, wait_signal,
                                              wait_signal_information, wait_shell};
    pid_t pid = fork();
    if (pid == 0)
        pause();
    for (unsigned i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        pthread_t thread;
        void *value = NULL;
        pthread_create(&thread, NULL, bodies[i], NULL);
        usleep(20000);
        pthread_cancel(thread);
        pthread_join(thread, &value);
        printf("cancelled: %d\n", value == PTHREAD_CANCELED);
    }
    kill(pid, SIGKILL);
    SAY(waitpid(pid, NULL, 0) == pid);
}

static void *burn_after(void *unused)
{
    after_vfork(150000);
    return unused;
}

/* A child by vfork changes signals and ids; its parent's are as they were, and what it executes has
 * what it made of them. */
static void a_child_in_our_memory(void)
{
    sigset_t all, old;
    int status = 0;
    pthread_t thread;
    sigfillset(&all);
    fflush(stdout);
    pid_t pid = vfork();
    if (pid == 0) {
        int wrong = setgid(getgid()) != 0;
        wrong += sigprocmask(SIG_BLOCK, &all, NULL) != 0;
        for (int i = 1; i < NSIG; i++)
            if (i != SIGKILL && i != SIGSTOP && (i < 32 || i > 33)) /* 32, 33: libc's */
                wrong += signal(i, SIG_IGN) == SIG_ERR;
        wrong += prctl(PR_SET_DUMPABLE, 1, 0, 0, 0) != 0;
        wrong += waitpid(-1, NULL, __WALL) != -1;
        if (wrong == 0)
            execl("/proc/self/exe", "corners", "--shown", NULL);
        _exit(wrong);
    }
    SAY(waitpid(pid, &status, 0) == pid);
    printf("status %#x\n", (unsigned)status);
    sigprocmask(SIG_BLOCK, NULL, &old);
    say_mask(&old);
    after_vfork(150000);
    pthread_create(&thread, NULL, burn_after, NULL);
    pthread_join(thread, NULL);
    SAY(signal(SIGUSR1, SIG_DFL));
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"waits", waits},
                                        {"interrupted", waits_that_are_interrupted},
                                        {"dlerror", errors_of_the_linker},
                                        {"programs", programs},
                                        {"spawns", spawns},
                                        {"shells", shells},
                                        {"threads", threads},
                                        {"identities", identities},
                                        {"controls", controls},
                                        {"cancels", cancels},
                                        {"vfork", a_child_in_our_memory}};
    if (argc > 1 && strcmp(argv[1], "--shown") == 0)
        return shown();
    return run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
}
