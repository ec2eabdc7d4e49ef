/*
 * argv[1] threads, each with the same argv[2] ms of CPU time, split 60/30/10 over three functions
 * in turns of argv[3] us, and named burner-N. With argv[4] none begins before all are there. Prints
 * nothing but a last word.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

BURNER(sixty)
BURNER(thirty)
BURNER(ten)

static long thread_us, turn_us;
static int waits_for_all;
static pthread_barrier_t all;

static void *body(void *number)
{
    char name[16];
    long end_ns;

    snprintf(name, sizeof(name), "burner-%ld", (long)number);
    pthread_setname_np(pthread_self(), name);
    if (waits_for_all)
        pthread_barrier_wait(&all);
    end_ns = thread_cpu_ns() + thread_us * 1000;
    while (thread_cpu_ns() < end_ns) {
        sixty(turn_us * 6 / 10);
        thirty(turn_us * 3 / 10);
        ten(turn_us / 10);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    long count = argument(argc, argv, 1, 8);
    pthread_t *threads = calloc((size_t)count, sizeof(*threads));

    thread_us = argument(argc, argv, 2, 300) * 1000;
    turn_us = argument(argc, argv, 3, 1370);
    waits_for_all = argc > 4;
    pthread_barrier_init(&all, NULL, (unsigned)count);
    for (long i = 0; i < count; i++)
        if (pthread_create(&threads[i], NULL, body, (void *)i))
            return 1;
    for (long i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    puts("joined");
    return 0;
}
