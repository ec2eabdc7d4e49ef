/*
 * Handles every signal by raw system calls, as Go's runtime does, and then makes a thread. Both
 * compute for 100 ms; prints how many signals came once the thread was there.
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

BURNER(in_thread)
BURNER(in_main)

static volatile int came;

static void handle(int signal)
{
    (void)signal;
    came++;
}

static void *begin(void *unused)
{
    came = 0;
    in_thread(100000);
    return unused;
}

int main(void)
{
    unsigned long as_of_libc[4]; /* the kernel's struct sigaction */
    pthread_t thread;

    signal(SIGUSR1, handle);
    syscall(SYS_rt_sigaction, SIGUSR1, NULL, as_of_libc, 8);
    for (int i = 1; i <= 64; i++)
        syscall(SYS_rt_sigaction, i, as_of_libc, NULL, 8);
    pthread_create(&thread, NULL, begin, NULL);
    pthread_join(thread, NULL);
    in_main(100000);
    printf("%d\n", came);
    return 5;
}
