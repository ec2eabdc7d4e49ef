/*
 * Calls syscall() with three arguments, time and again, while another thread counts in the word
 * that lies just above the return address on the caller's stack: where a seventh argument would be,
 * if there were one. Says how many counts got lost.
 *
 * Build: -pthread
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "burn.h"

#define COUNTS 200000000

static volatile uint64_t *word;
static int done;

static void *count(void *unused)
{
    (void)unused;
    while (__atomic_load_n(&word, __ATOMIC_ACQUIRE) == NULL)
        ;
    for (long i = 0; i < COUNTS; i++)
        *word = *word + 1; /* nobody else writes here */
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* syscall(SYS_getppid), called with the word at the stack pointer. */
static void call(uint64_t *at)
{
    __asm__ volatile("movq %%rsp, %%rbx\n\t"
                     "movq %1, %%rsp\n\t"
                     "movl %0, %%edi\n\t"
                     "xorl %%eax, %%eax\n\t"
                     "callq *%2\n\t"
                     "movq %%rbx, %%rsp"
                     :
                     : "i"(SYS_getppid), "r"(at), "r"(syscall)
                     : "rax", "rbx", "rcx", "rdx", "rsi", "rdi", "r8", "r9", "r10", "r11", "memory",
                       "cc");
}

int main(void)
{
    static uint64_t stack[4096] __attribute__((aligned(16)));
    pthread_t thread;

    if (pthread_create(&thread, NULL, count, NULL) != 0)
        return 1;
    __atomic_store_n(&word, &stack[2048], __ATOMIC_RELEASE);
    while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
        call(&stack[2048]);
    pthread_join(thread, NULL);
    printf("lost: %ld\n", COUNTS - (long)stack[2048]);
    return 0;
}
