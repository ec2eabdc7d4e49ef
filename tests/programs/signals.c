/*
 * A program that uses every signal a profiler might want: SIGPROF from ITIMER_PROF, each real-time
 * signal sent once to itself, and a thread that takes all signals by sigwait. Prints the counts.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

BURNER(work)

static volatile sig_atomic_t profiling, real_time, taken;

static void on_profiling(int number)
{
    (void)number;
    profiling++;
}

static void on_real_time(int number)
{
    (void)number;
    real_time++;
}

static void *wait_for_signals(void *mask)
{
    int number;

    while (!sigwait(mask, &number) && number != SIGTERM)
        taken++;
    return NULL;
}

/* One that is sent before the last is taken would be the same. */
static void wait_until_taken(int count)
{
    for (int i = 0; i < 1000 && taken < count; i++)
        usleep(5000);
}

static void use_timer(void)
{
    struct itimerval timer = {{0, 10000}, {0, 10000}};

    signal(SIGPROF, on_profiling);
    setitimer(ITIMER_PROF, &timer, NULL);
    work(400000);
    memset(&timer, 0, sizeof(timer));
    setitimer(ITIMER_PROF, &timer, NULL);
    printf("timer ran: %d\n", profiling >= 10 && profiling <= 60);
}

static void use_real_time(void)
{
    int sent = 0;

    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
        signal(i, on_real_time);
        work(2000);
        sent += raise(i) == 0;
    }
    printf("real-time: %d sent, %d handled\n", sent, (int)real_time);
}

static void use_sigwait(void)
{
    sigset_t mask;
    pthread_t thread;

    sigfillset(&mask);
    pthread_sigmask(SIG_BLOCK, &mask, NULL);
    if (pthread_create(&thread, NULL, wait_for_signals, &mask))
        abort();
    work(200000);
    for (int i = 1; i <= 3; i++) {
        kill(getpid(), SIGUSR1);
        wait_until_taken(i);
        usleep(20000);
    }
    kill(getpid(), SIGTERM);
    pthread_join(thread, NULL);
    printf("sigwait: %d\n", (int)taken);
}

int main(void)
{
    use_timer();
    use_real_time();
    use_sigwait();
    return 0;
}
