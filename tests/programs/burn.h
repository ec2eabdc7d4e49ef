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

/* Turns of spin() between two looks at the clock: a few us, and 50 us at most far from the end. */
#ifdef EMULATED
enum { TURNS_FAR = 800, TURNS_NEAR = 50 };
#else
enum { TURNS_FAR = 16000, TURNS_NEAR = 500 };
#endif

/* Uses us microseconds of the thread's CPU time, to within one or two. */
ALWAYS_INLINE void burn_us(long us)
{
    long left_ns, end_ns = thread_cpu_ns() + us * 1000;

    while ((left_ns = end_ns - thread_cpu_ns()) > 0)
        spin(left_ns > 50000 ? TURNS_FAR : TURNS_NEAR);
}

/* Defines a function that is nothing but its own CPU time. */
#define BURNER(name)                                                                               \
    OWN_FRAME void name(long us);                                                                  \
    OWN_FRAME void name(long us)                                                                   \
    {                                                                                              \
        burn_us(us);                                                                               \
    }

/* Defines a function that calls CALLEE in a frame that is found by a register no rule follows, as
 * the dynamic linker's code is that binds functions: its callee has saved rbx, if anybody has. */
#ifdef __x86_64__
#define NEEDS_LIBUNWIND(name, callee)                                                              \
    void name(long us);                                                                            \
    __asm__(".text\n.globl " #name "\n.type " #name ", @function\n" #name ":\n"                    \
            ".cfi_startproc\n\t"                                                                   \
            "pushq %rbx\n\t.cfi_adjust_cfa_offset 8\n\t.cfi_rel_offset %rbx, 0\n\t"                \
            "movq %rsp, %rbx\n\t.cfi_def_cfa_register %rbx\n\t"                                    \
            "andq $-64, %rsp\n\tsubq $640, %rsp\n\t"                                               \
            "callq " #callee "\n\t"                                                                \
            "movq %rbx, %rsp\n\t.cfi_def_cfa_register %rsp\n\t"                                    \
            "popq %rbx\n\t.cfi_adjust_cfa_offset -8\n\t.cfi_restore %rbx\n\t"                      \
            "ret\n"                                                                                \
            ".cfi_endproc\n.size " #name ", . - " #name "\n");
#else
#define NEEDS_LIBUNWIND(name, callee)                                                              \
    OWN_FRAME void name(long us);                                                                  \
    OWN_FRAME void name(long us)                                                                   \
    {                                                                                              \
        callee(us);                                                                                \
    }
#endif

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
