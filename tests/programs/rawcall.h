/*
 * System calls through no function of libc's, which the library has hooks on.
 */
#ifndef RAWCALL_H
#define RAWCALL_H

static inline long raw(long number, long a, long b, long c)
{
    long result;

    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c)
                     : "rcx", "r11", "memory");
    return result;
}

#endif
