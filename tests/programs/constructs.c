/*
 * A program that loads the library argv[1], or with -DLIBRARY that library: its constructor waits
 * for a thread that calls much of what may be hooked, each for the first time in the process.
 * Build: -pthread -ldl
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef LIBRARY

extern char **environ;

/* Returns how many of these went well: six. */
static void *calls(void *unused)
{
    char *words[] = {"true", NULL};
    pid_t pid;
    long good = setgid(getgid()) == 0;
    (void)unused;
    good += signal(SIGUSR1, SIG_IGN) == SIG_DFL;
    good += prctl(PR_SET_NAME, "caller") == 0;
    good += syscall(SYS_getpid) == getpid();
    good +=
        posix_spawnp(&pid, "true", NULL, NULL, words, environ) == 0 && waitpid(pid, NULL, 0) == pid;
    pid = vfork();
    if (pid == 0) {
        execv("/bin/true", words);
        _exit(1);
    }
    good += wait4(pid, NULL, 0, NULL) == pid;
    return (void *)good;
}

__attribute__((constructor)) static void wait_for_thread(void)
{
    pthread_t thread;
    void *good = NULL;
    if (pthread_create(&thread, NULL, calls, NULL) == 0)
        pthread_join(thread, &good);
    printf("%ld calls went well\n", (long)good);
}

#else

int main(int argc, char **argv)
{
    return argc > 1 && dlopen(argv[1], RTLD_NOW) != NULL ? 0 : 1;
}

#endif
