/*
 * Burning known amounts of CPU time, for test programs whose profile is known by construction.
 *
 * Time is that of the calling thread's own CPU clock, so neither the machine's speed nor its load
 * changes a split. burn_us() is part of its caller, which therefore is where the samples are.
 */
#ifndef BURN_H
#define BURN_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#ifdef __clang__
#define OWN_FRAME __attribute__((noinline, optnone))
#else
#define OWN_FRAME __attribute__((noipa))
#endif

/* Keeps a call from being the last thing its caller does: no tail call, the caller stays. */
#define NOT_LAST() __asm__ volatile("")

ALWAYS_INLINE long thread_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

ALWAYS_INLINE void spin(long turns)
{
    for (volatile long i = 0; i < turns; i++)
        ;
}

/* Uses us microseconds of the thread's CPU time, to within one or two. */
ALWAYS_INLINE void burn_us(long us)
{
    long left_ns, end_ns = thread_cpu_ns() + us * 1000;

    while ((left_ns = end_ns - thread_cpu_ns()) > 0)
        spin(left_ns > 50000 ? 16000 : 500);
}

/* Defines a function that is nothing but its own CPU time. */
#define BURNER(name)                                                                               \
    OWN_FRAME void name(long us);                                                                  \
    OWN_FRAME void name(long us)                                                                   \
    {                                                                                              \
        burn_us(us);                                                                               \
    }

ALWAYS_INLINE long argument(int argc, char **argv, int index, long otherwise)
{
    return argc > index ? strtol(argv[index], NULL, 10) : otherwise;
}

/* Defines main: calls of WORK, with a slice that fits no round period, for argv[1] ms of CPU time.
 */
#define MAIN_OF(work)                                                                              \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        long end_ns = thread_cpu_ns() + argument(argc, argv, 1, 1000) * 1000000L;                  \
        while (thread_cpu_ns() < end_ns)                                                           \
            work(1370);                                                                            \
        puts("done");                                                                              \
        return 0;                                                                                  \
    }

#endif
