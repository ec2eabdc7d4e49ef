/*
 * Calls of what a profiler may hook, with odd arguments and at odd moments: prints what each
 * returned and left in errno, so that two runs can be compared. Each part is a child of its own.
 */
#ifndef SELFSAMPLE_TESTS_CORNERS_H
#define SELFSAMPLE_TESTS_CORNERS_H

#include "burn.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct part {
    const char *name;
    void (*run)(void);
};

/* No addresses, which the compiler does not know. */
static void *volatile nowhere = (void *)8, *volatile null;

/* What CALL returns, and errno, which was 77 before. */
#define SAY(call)                                                                                  \
    do {                                                                                           \
        errno = 77;                                                                                \
        long returned = (long)(call);                                                              \
        int left = errno;                                                                          \
        printf("%s: %ld, %s\n", #call, returned, left == 77 ? "-" : strerrorname_np(left));        \
    } while (0)

static inline void on_signal(int number)
{
    (void)number;
}

/* The same while alarms come, the first of which may be too early. */
#define SAY_INTERRUPTED(call)                                                                      \
    do {                                                                                           \
        const struct sigaction action = {.sa_handler = on_signal};                                 \
        sigaction(SIGALRM, &action, NULL);                                                         \
        ualarm(30000, 30000);                                                                      \
        errno = 77;                                                                                \
        long returned = (long)(call);                                                              \
        int left = errno;                                                                          \
        ualarm(0, 0);                                                                              \
        printf("%s: %ld, %s\n", #call, returned, strerrorname_np(left));                           \
    } while (0)

static inline void say_mask(const sigset_t *set)
{
    for (int i = 1; i < NSIG; i++)
        putchar(sigismember(set, i) == 1 ? '1' : '0');
    putchar('\n');
}

/* Runs each of them, or the one that argv[1] names. Returns what main is to. */
static inline int run_parts(const struct part *parts, unsigned count, int argc, char **argv)
{
    for (unsigned i = 0; i < count; i++) {
        int status = 0;
        if (argc > 1 && strcmp(argv[1], parts[i].name) != 0)
            continue;
        printf("%s\n", parts[i].name);
        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
            parts[i].run();
            return 0;
        }
        waitpid(pid, &status, 0);
        printf("%s ended with %#x\n", parts[i].name, (unsigned)status);
    }
    return 0;
}

#endif
