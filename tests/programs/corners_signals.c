/*
 * Masks, actions and waits of signals, and their stacks: see corners.h.
 * argv[1]: that part alone.
 * Build: -pthread
 */
#include "corners.h"

#include <limits.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <time.h>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* sighold and the like */

static void masks(void)
{
    sigset_t all, old, none, *volatile same = &all;
    sigfillset(&all);
    sigemptyset(&none);
    memset(&old, 0, sizeof old);
    SAY(sigprocmask(99, NULL, &old));
    SAY(sigprocmask(99, &all, &old));
    SAY(pthread_sigmask(99, &all, &old));
    SAY(pthread_sigmask(SIG_BLOCK, NULL, NULL));
    SAY(sigprocmask(SIG_BLOCK, &all, same));
    say_mask(&all);
    SAY(sigprocmask(SIG_UNBLOCK, &none, &old));
    say_mask(&old);
    SAY(pthread_sigmask(SIG_SETMASK, &none, &old));
    say_mask(&old);
    SAY(sigprocmask(SIG_BLOCK, NULL, &old));
    say_mask(&old);
    SAY(sigpending(nowhere));
    SAY(sigpending(&old));
    say_mask(&old);
    SAY(sighold(0));
    SAY(sighold(NSIG));
    SAY(sigrelse(-1));
    SAY(sigblock(-1));
    SAY(sigsetmask(0));
    SAY(sigsetmask(0));
}

/* As large as the kernel's, without anything behind. */
static void masks_of_the_kernel(void)
{
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    sigset_t *set = (sigset_t *)(page + 4096 - sizeof(uint64_t));
    mprotect(page + 4096, 4096, PROT_NONE);
    *(uint64_t *)set = 1ull << (SIGUSR1 - 1);
    SAY(sigprocmask(SIG_BLOCK, set, NULL));
    SAY(pthread_sigmask(SIG_UNBLOCK, set, NULL));
    SAY(sigprocmask(SIG_SETMASK, set, set));
    SAY(sigpending(set));
    raise(SIGUSR1);
    *(uint64_t *)set = 1ull << (SIGUSR1 - 1);
    SAY(sigwaitinfo(set, NULL));
    munmap(page, 8192);
}

static void actions(void)
{
    struct sigaction old;
    static const int numbers[] = {-1, 0, 9, 19, 32, 33, NSIG, INT_MAX};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    for (unsigned i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        printf("signal %d\n", numbers[i]);
        SAY(sigaction(numbers[i], NULL, NULL));
        SAY(sigaction(numbers[i], NULL, &old));
        SAY(sigaction(numbers[i], &ignore, &old));
        SAY(signal(numbers[i], SIG_IGN));
        SAY(sigset(numbers[i], SIG_HOLD));
        SAY(sigignore(numbers[i]));
        SAY(siginterrupt(numbers[i], 1));
    }
    for (int i = 1; i < NSIG; i++) {
        memset(&old, 0x55, sizeof old);
        if (sigaction(i, NULL, &old) == 0 && (old.sa_handler != SIG_DFL || old.sa_flags != 0))
            printf("signal %d is not as at first\n", i);
    }
    SAY(signal(SIGRTMAX, SIG_ERR));
    SAY(sigset(SIGRTMAX, SIG_HOLD));
    SAY(sigset(SIGRTMAX, SIG_IGN));
    SAY(sigset(SIGRTMAX, SIG_DFL));
}

static void alternate_stacks(void)
{
    static char room[65536];
    stack_t old, small = {.ss_sp = room, .ss_size = 64}, large = {.ss_sp = room, .ss_size = 65536};
    const stack_t unknown = {.ss_sp = room, .ss_size = sizeof room, .ss_flags = 77};
    const stack_t none = {.ss_flags = SS_DISABLE};
    char *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(page + 4096, 4096, PROT_NONE);
    SAY(sigaltstack(NULL, NULL));
    SAY(sigaltstack(nowhere, NULL));
    SAY(sigaltstack((stack_t *)(page + 4096 - 8), &old));
    SAY(sigaltstack(NULL, nowhere));
    SAY(sigaltstack(&small, NULL));
    SAY(sigaltstack(&unknown, NULL));
    SAY(sigaltstack(&large, nowhere));
    SAY(sigaltstack(&none, &old));
    printf("flags %d, %zu bytes\n", old.ss_flags, old.ss_size);
    munmap(page, 8192);
}

static void signals_that_are_waited_for(void)
{
    const struct timespec no_time = {0, 0}, little = {0, 30000000}, before = {-1, 0},
                          odd = {0, 1000000000};
    sigset_t all, none, user;
    siginfo_t info;
    int number = 0;
    sigfillset(&all);
    sigemptyset(&none);
    sigemptyset(&user);
    sigaddset(&user, SIGUSR1);
    SAY(sigtimedwait(&all, &info, &no_time));
    SAY(sigtimedwait(&all, NULL, &little));
    SAY(sigtimedwait(&none, &info, &little));
    SAY(sigtimedwait(&all, &info, &before));
    SAY(sigtimedwait(&all, &info, &odd));
    SAY(sigtimedwait(null, &info, &no_time));
    SAY(sigtimedwait(nowhere, &info, &no_time));
    SAY(sigtimedwait(&all, &info, nowhere));
    SAY(sigwaitinfo(nowhere, &info));
    SAY(sigwait(nowhere, &number));
    sigprocmask(SIG_BLOCK, &user, NULL);
    raise(SIGUSR1);
    SAY(sigtimedwait(&all, NULL, NULL));
    raise(SIGUSR1);
    SAY(sigtimedwait(&all, nowhere, NULL));
    raise(SIGUSR1);
    SAY(sigwaitinfo(&all, &info));
    raise(SIGUSR1);
    SAY(sigwait(&all, &number));
    printf("%d\n", number);
    SAY_INTERRUPTED(sigwaitinfo(&user, &info));
    SAY_INTERRUPTED(sigtimedwait(&user, NULL, NULL));
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {{"masks", masks},
                                        {"kernel's masks", masks_of_the_kernel},
                                        {"actions", actions},
                                        {"stacks", alternate_stacks},
                                        {"waited", signals_that_are_waited_for}};
    return run_parts(parts, sizeof parts / sizeof *parts, argc, argv);
}
