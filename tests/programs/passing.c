/*
 * Calls syscall() with one argument from a stack whose words above the return address can't be
 * written: a seventh argument would lie there, if there were one, and other threads may be at work
 * on what lies there instead.
 */
#include <sys/mman.h>
#include <sys/syscall.h>

#include "burn.h"

#define PAGES_BYTES 65536

/* syscall(SYS_getppid) with the stack pointer at AT. */
static long call(void *at)
{
    long result;

    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %2, %%rsp\n\t"
                     "movl %1, %%edi\n\t"
                     "xorl %%eax, %%eax\n\t"
                     "callq *%3\n\t"
                     "movq %%rbx, %%rsp"
                     : "=&a"(result)
                     : "i"(SYS_getppid), "r"(at), "r"(syscall)
                     : "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory", "cc");
    return result;
}

int main(void)
{
    char *memory =
        mmap(NULL, 2 * PAGES_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED || mprotect(memory + PAGES_BYTES, PAGES_BYTES, PROT_READ) != 0)
        return 1;
    return call(memory + PAGES_BYTES) == getppid() ? 0 : 2;
}
