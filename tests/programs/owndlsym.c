/*
 * Has a dlsym of its own, as overlays and tracers have, which asks libc's for RTLD_NEXT in its own
 * name: what comes next is then next to this program, and may be whoever asked. Calls what a
 * profiler may hook, then computes in two threads.
 *
 *     owndlsym           as told
 *     owndlsym LIBRARY   its dlsym finds nothing; calls the functions of LIBRARY that stand in
 *                        front of libc's, and says what they return
 *
 * Build: -pthread -ldl -rdynamic
 */
#include "burn.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

BURNER(in_thread)

typedef void *dlsym_function(void *, const char *);

static bool finds_nothing;

static dlsym_function *real_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
    void *found = NULL;
    for (unsigned i = 0; found == NULL && i < sizeof versions / sizeof *versions; i++)
        found = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    return (dlsym_function *)found;
}

__attribute__((noipa)) void *dlsym(void *restrict handle, const char *restrict name)
{
    static dlsym_function *real;
    if (real == NULL)
        real = real_dlsym();
    void *found = handle == RTLD_NEXT && finds_nothing ? NULL : real(handle, name);
    NOT_LAST();
    return found;
}

static void *run(void *us)
{
    in_thread((long)us);
    return NULL;
}

static int compute(void)
{
    pthread_t threads[2];
    sigset_t set;
    int status = 0;
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    sigemptyset(&set);
    if (system("exit 3") != 3 << 8 || sigaction(SIGUSR1, &ignore, NULL) != 0 ||
        sigprocmask(SIG_BLOCK, &set, NULL) != 0 || prctl(PR_GET_DUMPABLE) != 1 ||
        syscall(SYS_getpid) != getpid())
        return 2;
    for (int i = 0; i < 2; i++)
        if (pthread_create(&threads[i], NULL, run, (void *)200000) != 0)
            return 3;
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pid_t pid = fork();
    if (pid == 0)
        execl("/bin/sh", "sh", "-c", "exit 6", NULL);
    return waitpid(pid, &status, 0) == pid && status == 6 << 8 ? 0 : 4;
}

/* Those of libc's usual kind: -1, and errno tells. */
#define SAY(name, ...)                                                                             \
    do {                                                                                           \
        long (*function)(long, ...) = (long (*)(long, ...))dlsym(library, #name);                  \
        errno = 0;                                                                                 \
        int returned = function != NULL ? (int)function(__VA_ARGS__) : 1;                          \
        printf(#name " %d %s\n", returned, strerrorname_np(errno));                                \
    } while (0)

static int refusals(const char *path)
{
    sigset_t set;
    int number = 0;
    finds_nothing = true;
    void *library = dlopen(path, RTLD_NOW);
    if (library == NULL)
        return 5;
    sigemptyset(&set);
    SAY(waitpid, -1, NULL, WNOHANG);
    SAY(wait3, 0, WNOHANG, NULL);
    SAY(wait4, -1, NULL, WNOHANG, NULL);
    SAY(waitid, P_ALL, 0, NULL, WEXITED | WNOHANG);
    SAY(sigaction, SIGUSR1, NULL, NULL);
    SAY(sigprocmask, SIG_BLOCK, NULL, NULL);
    SAY(pthread_sigmask, SIG_BLOCK, NULL, NULL);
    SAY(sigpending, (long)&set);
    SAY(sigwait, (long)&set, &number);
    SAY(sigtimedwait, (long)&set, NULL, &(struct timespec){0, 0});
    SAY(sigaltstack, 0, NULL);
    SAY(siginterrupt, SIGUSR1, 0);
    SAY(prctl, PR_GET_DUMPABLE);
    SAY(prctl, PR_SET_DUMPABLE, 1);
    SAY(syscall, SYS_getpid);
    SAY(syscall, SYS_prctl, PR_GET_DUMPABLE);
    SAY(setuid, 0);
    SAY(execv, (long)"/bin/true", NULL);
    SAY(system, 0);
    SAY(pthread_create, 0, NULL, NULL, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    return argc > 1 ? refusals(argv[1]) : compute();
}
