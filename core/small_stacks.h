/*
 * Threads whose alternate signal stack (sigaltstack(2)) has no room for the timers' signal: the
 * kernel ends a process whose signal does not fit there. Such threads get no signal of ours.
 *
 * A thread that asks the kernel knows of its own; of others it is what the hook on sigaltstack has
 * noted here.
 *
 * Runs in the app's threads, in their handlers too. No lock, no allocation, no libc.
 */
#ifndef SELFSAMPLE_CORE_SMALL_STACKS_H
#define SELFSAMPLE_CORE_SMALL_STACKS_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define SMALL_STACKS_NOTED 64u

/* What our handler takes below the kernel's frame, with something to spare. */
#define SMALL_STACKS_HANDLER_BYTES 2048u

/* The kernel's largest frame where it does not tell, before Linux 5.14 on x86-64: the frame's fixed
 * part and all of AVX-512; it is larger than that of AArch64 without SVE. */
#define SMALL_STACKS_FRAME_BYTES 4800u

struct small_stacks {
    size_t frame_bytes; /* AT_MINSIGSTKSZ of the auxiliary vector; 0: not told */
    uint32_t beyond;    /* threads were not noted for want of room: any may be one; atomic */
    pid_t noted[SMALL_STACKS_NOTED]; /* 0: free; atomic */
};

/* Is STACK, as sigaltstack takes and gives it, in use and too small? */
bool small_stack_is(const struct small_stacks *stacks, const stack_t *stack);

/* Is that of the calling thread? Asks the kernel. */
bool small_stack_is_own(const struct small_stacks *stacks);

/* Notes that thread TID has one, or has none any more. */
void small_stacks_note(struct small_stacks *stacks, pid_t tid, bool has);

/* May thread TID have one, as far as was noted? */
bool small_stacks_may_have(const struct small_stacks *stacks, pid_t tid);

/* In a forked child, whose only thread's is to be asked for. */
void small_stacks_forget(struct small_stacks *stacks);

#endif
