/*
 * A thread and then the first one compute for argv[1] ms each in before(), block every signal, the
 * one by pthread_sigmask, the other by sigprocmask, and compute as long in a function named so.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>

BURNER(before)
BURNER(by_pthread_sigmask)
BURNER(by_sigprocmask)

static long part_us;

static void *body(void *all)
{
    before(part_us);
    if (pthread_sigmask(SIG_SETMASK, all, NULL) != 0)
        abort();
    by_pthread_sigmask(part_us);
    return NULL;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    sigset_t all;

    part_us = argument(argc, argv, 1, 300) * 1000;
    sigfillset(&all);
    if (pthread_create(&thread, NULL, body, &all))
        return 1;
    pthread_join(thread, NULL);
    before(part_us);
    if (sigprocmask(SIG_BLOCK, &all, NULL) != 0)
        return 1;
    by_sigprocmask(part_us);
    return 0;
}
