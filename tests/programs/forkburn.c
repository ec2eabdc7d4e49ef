/*
 * argv[2] threads burn while main forks argv[1] children, four at a time, that allocate, compute
 * for argv[3] us in in_child() and exit. Their stacks are for libunwind, whose locks a fork must
 * not copy while they are held. Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <sys/wait.h>

BURNER(in_burner)
BURNER(in_child)
NEEDS_LIBUNWIND(burner, in_burner)
NEEDS_LIBUNWIND(burning_child, in_child)

#define THREADS_MAX 16

static volatile int stop;

static void *body(void *unused)
{
    while (!stop)
        burner(1000);
    return unused;
}

static void child(long us)
{
    char *volatile block = malloc(100000);

    memset(block, 1, 100000);
    burning_child(us);
    free(block);
    exit(0);
}

int main(int argc, char **argv)
{
    long children = argument(argc, argv, 1, 400);
    long burners = argument(argc, argv, 2, 2), us = argument(argc, argv, 3, 3000);
    int status, bad = 0;
    pthread_t threads[THREADS_MAX];

    if (burners > THREADS_MAX)
        return 2;
    for (int i = 0; i < burners; i++)
        if (pthread_create(&threads[i], NULL, body, NULL))
            return 1;
    for (long i = 0; i < children; i++) {
        pid_t pid = fork();

        if (pid == 0)
            child(us);
        if (i % 4 == 3)
            while (wait(&status) > 0)
                bad += status != 0;
    }
    stop = 1;
    for (int i = 0; i < burners; i++)
        pthread_join(threads[i], NULL);
    while (wait(&status) > 0)
        bad += status != 0;
    printf("%ld children, %d bad\n", children, bad);
    return 0;
}
