/*
 * Four workers, two mistakes. The jobs are dealt out beforehand and the large ones all go to the
 * last worker, so the others are done early. And each unit of work is counted under one spin lock,
 * so those that run at the same time wait for each other, on the CPU. Each thread has a name, and
 * its own tower in the picture.
 *
 *     cc -O1 -g -pthread -o pool pool.c && ./pool
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { WORKERS = 4, JOBS = 64, UNITS_SMALL = 100000, UNITS_LARGE = 500000, ROUNDS = 40 };

static atomic_flag count_lock = ATOMIC_FLAG_INIT;
static unsigned long counted;
static _Atomic unsigned long results;

__attribute__((noinline)) static void spin_until_locked(void)
{
    while (atomic_flag_test_and_set_explicit(&count_lock, memory_order_acquire))
        ;
}

__attribute__((noinline)) static void unit_count(void)
{
    spin_until_locked();
    for (volatile unsigned i = 0; i < 10; i++)
        ;
    counted++;
    atomic_flag_clear_explicit(&count_lock, memory_order_release);
}

__attribute__((noinline)) static unsigned long unit_compute(unsigned long x)
{
    for (int i = 0; i < ROUNDS; i++)
        x = (x ^ x >> 29) * 0xbf58476d1ce4e5b9u;
    return x;
}

__attribute__((noinline)) static unsigned long job_run(unsigned number)
{
    unsigned units = number >= JOBS - JOBS / WORKERS ? UNITS_LARGE : UNITS_SMALL;
    unsigned long result = number;
    for (unsigned i = 0; i < units; i++) {
        result += unit_compute(result + i);
        unit_count();
    }
    return result;
}

static void *worker(void *argument)
{
    unsigned number = (unsigned)(unsigned long)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", number);
    pthread_setname_np(pthread_self(), name);
    unsigned jobs = JOBS / WORKERS;
    for (unsigned job = number * jobs; job < (number + 1) * jobs; job++)
        results += job_run(job);
    return NULL;
}

int main(void)
{
    pthread_t threads[WORKERS];
    for (unsigned long i = 0; i < WORKERS; i++)
        if (pthread_create(&threads[i], NULL, worker, (void *)i) != 0)
            return 1;
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    printf("%lu units, result %lx\n", counted, results);
    return 0;
}
