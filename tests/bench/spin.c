/*
 * A fixed amount of work, so that what profiling costs shows in the CPU time it takes.
 *
 *     spin together|in-a-row THREADS TURNS
 *
 * Every thread does TURNS turns of a loop; all at once, or one after the other. In the end it
 * prints the time (CLOCK_MONOTONIC, ns) at which main was done.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static long turns;

static void *spin(void *unused)
{
    for (volatile long i = 0; i < turns; i++)
        ;
    return unused;
}

static int start(pthread_t *thread)
{
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 64 * 1024);
    int error = pthread_create(thread, &small, spin, NULL);
    pthread_attr_destroy(&small);
    return error;
}

static int run(long count, int together)
{
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    int failed = threads == NULL;
    for (long i = 0; i < count && !failed; i++) {
        failed = start(&threads[i]);
        if (!failed && !together)
            pthread_join(threads[i], NULL);
    }
    for (long i = 0; i < count && together && !failed; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return failed;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return 2;
    long count = atol(argv[2]);
    turns = atol(argv[3]);
    if (count == 1)
        spin(NULL);
    else if (run(count, strcmp(argv[1], "together") == 0))
        return 1;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    printf("%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    return 0;
}
