/*
 * Uses argv[1] milliseconds of CPU time in work(), then ends the process the way argv[2] says.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>

BURNER(work)
BURNER(work_after_main)

/* A division by zero is 0 on AArch64, no fault. */
#ifdef __aarch64__
#define ILLEGAL()        __asm__ volatile("udf #0")
#define DIVIDE_BY_ZERO() raise(SIGFPE)
#else
#define ILLEGAL() __asm__ volatile("ud2")
#define DIVIDE_BY_ZERO()                                                                           \
    __asm__ volatile("xor %%eax, %%eax; xor %%edx, %%edx; div %%eax" ::: "eax", "edx")
#endif

static long half_us;
static volatile int *volatile nowhere = (volatile int *)8;

static void *exit_in_thread(void *unused)
{
    (void)unused;
    work(half_us);
    exit(42);
}

static void *outlive_main(void *unused)
{
    (void)unused;
    work(half_us);
    usleep(50000);
    work_after_main(half_us);
    puts("outlived");
    return NULL;
}

static void *end_by_the_call(void *unused)
{
    work(half_us);
    syscall(SYS_exit, 0);
    return unused;
}

static void *burn_for_ever(void *unused)
{
    for (;;)
        work(1000);
    return unused;
}

static void *wait_for_ever(void *unused)
{
    for (;;)
        pause();
    return unused;
}

static void run_thread(void *(*body)(void *))
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, body, NULL))
        abort();
}

static void end_by_thread(const char *how)
{
    if (!strcmp(how, "thread-exit")) {
        run_thread(exit_in_thread);
        pause();
    } else if (!strcmp(how, "main-pthread-exit")) {
        run_thread(outlive_main);
        pthread_exit(NULL);
    } else if (!strcmp(how, "return-with-threads")) {
        run_thread(wait_for_ever);
        work(half_us);
    } else if (!strcmp(how, "thread-by-thread")) { /* and libc does not see the last one go */
        run_thread(end_by_the_call);
        syscall(SYS_exit, 6);
    } else if (!strcmp(how, "exit-among-burners")) {
        run_thread(burn_for_ever);
        run_thread(burn_for_ever);
        work(half_us);
        _exit(7);
    }
}

static void end_by_fault(const char *how)
{
    if (!strcmp(how, "segv"))
        *nowhere = 0;
    else if (!strcmp(how, "ill"))
        ILLEGAL();
    else if (!strcmp(how, "fpe"))
        DIVIDE_BY_ZERO();
    else if (!strcmp(how, "abort"))
        abort();
}

static void end_by_call(const char *how)
{
    if (!strcmp(how, "exit"))
        exit(42);
    else if (!strcmp(how, "_exit"))
        _exit(1);
    else if (!strcmp(how, "_Exit"))
        _Exit(255);
    else if (!strcmp(how, "quick_exit"))
        quick_exit(3);
    else if (!strcmp(how, "exit_group"))
        syscall(SYS_exit_group, 5);
}

int main(int argc, char **argv)
{
    const char *how = argc > 2 ? argv[2] : "return";

    half_us = argument(argc, argv, 1, 400) * 500;
    work(half_us);
    end_by_thread(how);
    if (strcmp(how, "return-with-threads"))
        work(half_us);
    if (!strncmp(how, "signal-", 7))
        kill(getpid(), atoi(how + 7));
    end_by_fault(how);
    end_by_call(how);
    return 0;
}
