/*
 * Stacks that no compiler makes, argv[2] ms of computing in each part. argv[1]:
 *   alloca     frames whose size only the run tells
 *   context    three coroutines of makecontext() on stacks of 16 KiB, 50/30/20
 *   switched   the same by a switch of its own, without unwind information
 *   bare       assembly without unwind information, between compiled functions and as the leaf
 *   lying      assembly whose unwind information is wrong: its frame is said to be larger, smaller,
 *              and to go on for ever
 *   wild       calls of bad addresses, caught by a handler that computes
 */
#include "burn.h"

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <ucontext.h>

#define COROUTINES  3
#define STACK_BYTES 16384

static long total_us;

BURNER(work)
BURNER(fifty)
BURNER(thirty)
BURNER(twenty)

OWN_FRAME static void sized(int left)
{
    volatile char *room = alloca((size_t)(100 + left * 37));

    room[0] = 1;
    if (left > 0)
        sized(left - 1);
    else
        work(total_us);
    NOT_LAST();
}

/* ---- coroutines ---- */

static _Alignas(16) char stacks[COROUTINES][STACK_BYTES];
static ucontext_t contexts[COROUTINES], home;
static void *pointers[COROUTINES], *home_pointer;
static void (*give_back)(int);

static void give_context(int which)
{
    swapcontext(&contexts[which], &home);
}

void stack_switch(void **from, void *to);
__asm__(".text\n"
        "stack_switch:\n"
        "pushq %rbp\n pushq %rbx\n pushq %r12\n pushq %r13\n pushq %r14\n pushq %r15\n"
        "movq %rsp, (%rdi)\n"
        "movq %rsi, %rsp\n"
        "popq %r15\n popq %r14\n popq %r13\n popq %r12\n popq %rbx\n popq %rbp\n"
        "ret\n");

static void give_pointer(int which)
{
    stack_switch(&pointers[which], home_pointer);
}

OWN_FRAME static void coroutine(int which)
{
    static void (*const works[])(long) = {fifty, thirty, twenty};
    static const long shares[] = {5, 3, 2};

    for (;;) {
        works[which](shares[which] * 700);
        give_back(which);
    }
}

OWN_FRAME static void entry_0(void)
{
    coroutine(0);
    NOT_LAST();
}

OWN_FRAME static void entry_1(void)
{
    coroutine(1);
    NOT_LAST();
}

OWN_FRAME static void entry_2(void)
{
    coroutine(2);
    NOT_LAST();
}

static void (*const entries[])(void) = {entry_0, entry_1, entry_2};

static void context_make(int which)
{
    getcontext(&contexts[which]);
    contexts[which].uc_stack.ss_sp = stacks[which];
    contexts[which].uc_stack.ss_size = STACK_BYTES;
    contexts[which].uc_link = which == 0 ? &home : NULL;
    makecontext(&contexts[which], entries[which], 0);
}

/* Six registers, the entry as a return address, and where that would return to: nowhere. */
static void pointer_make(int which)
{
    uint64_t *top = (uint64_t *)(void *)(stacks[which] + STACK_BYTES) - 2;

    top[0] = 0;
    *--top = (uint64_t)(uintptr_t)entries[which];
    pointers[which] = top - 6;
}

static void turns(int switched)
{
    long end_ns = thread_cpu_ns() + total_us * 1000;

    give_back = switched ? give_pointer : give_context;
    for (int i = 0; i < COROUTINES; i++)
        switched ? pointer_make(i) : context_make(i);
    while (thread_cpu_ns() < end_ns)
        for (int i = 0; i < COROUTINES; i++)
            if (switched)
                stack_switch(&home_pointer, pointers[i]);
            else
                swapcontext(&home, &contexts[i]);
}

/* ---- assembly ---- */

void bare_leaf(long turns);
void bare_between(void (*function)(long), long us);
void lying_large(void (*function)(long), long us);
void lying_small(void (*function)(long), long us);
void lying_loop(void (*function)(long), long us);
__asm__(".text\n"
        ".type bare_leaf, @function\n"
        "bare_leaf:\n"
        "1: decq %rdi\n jnz 1b\n ret\n"
        ".size bare_leaf, . - bare_leaf\n"
        ".type bare_between, @function\n"
        "bare_between:\n"
        "pushq %rbp\n movq %rsp, %rbp\n movq %rdi, %rax\n movq %rsi, %rdi\n"
        "call *%rax\n popq %rbp\n ret\n"
        ".size bare_between, . - bare_between\n"
        ".type lying_large, @function\n"
        "lying_large:\n"
        ".cfi_startproc\n .cfi_def_cfa_offset 160\n"
        "subq $8, %rsp\n movq %rdi, %rax\n movq %rsi, %rdi\n"
        "call *%rax\n addq $8, %rsp\n ret\n"
        ".cfi_endproc\n"
        ".size lying_large, . - lying_large\n"
        ".type lying_small, @function\n"
        "lying_small:\n"
        ".cfi_startproc\n"
        "subq $40, %rsp\n movq %rdi, %rax\n movq %rsi, %rdi\n"
        "call *%rax\n addq $40, %rsp\n ret\n"
        ".cfi_endproc\n"
        ".size lying_small, . - lying_small\n"
        ".type lying_loop, @function\n"
        "lying_loop:\n"
        ".cfi_startproc\n .cfi_def_cfa_offset 0\n .cfi_offset %rip, -8\n"
        "subq $8, %rsp\n movq %rdi, %rax\n movq %rsi, %rdi\n"
        "call *%rax\n addq $8, %rsp\n ret\n"
        ".cfi_endproc\n"
        ".size lying_loop, . - lying_loop\n");

OWN_FRAME static void calls_bare(void)
{
    bare_between(work, total_us);
    long end_ns = thread_cpu_ns() + total_us * 1000;
    while (thread_cpu_ns() < end_ns)
        bare_leaf(100000);
    NOT_LAST();
}

OWN_FRAME static void calls_lying(void)
{
    lying_large(work, total_us);
    lying_small(work, total_us);
    lying_loop(work, total_us);
    NOT_LAST();
}

/* ---- bad addresses ---- */

static sigjmp_buf back;

static void on_fault(int number)
{
    (void)number;
    work(total_us / 3);
    siglongjmp(back, 1);
}

OWN_FRAME static void jumps_wildly(uint64_t address)
{
    void (*volatile bad)(void) = (void (*)(void))(uintptr_t)address;

    if (!sigsetjmp(back, 1))
        bad();
    NOT_LAST();
}

static void wild(void)
{
    signal(SIGSEGV, on_fault);
    jumps_wildly(0);
    jumps_wildly(0x10);
    jumps_wildly(0xdead00000000);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";

    total_us = argument(argc, argv, 2, 500) * 1000;
    if (!strcmp(what, "alloca"))
        sized(50);
    else if (!strcmp(what, "context"))
        turns(0);
    else if (!strcmp(what, "switched"))
        turns(1);
    else if (!strcmp(what, "bare"))
        calls_bare();
    else if (!strcmp(what, "lying"))
        calls_lying();
    else if (!strcmp(what, "wild"))
        wild();
    else
        return 2;
    puts(what);
    return 0;
}
