/* x86-64: system call instruction, registers of a sample, layout of the thread block. */
#ifndef SELFSAMPLE_CORE_ARCH_X86_64_H
#define SELFSAMPLE_CORE_ARCH_X86_64_H

#include <stdint.h>

static inline long arch_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

#endif
