/*
 * Time in the kernel, where the kernel makes no samples of it (exclude_kernel).
 *
 * There an event fires as ever, every period of its thread's CPU time, but makes a record only if
 * it finds the thread in its own code. So a period that went by without a record, though nothing
 * was lost, ended in the kernel: what a sample at that point would weigh is booked under
 * `[kernel]`. That is as right on the average as the samples are, and for the same reason.
 *
 * Where kernel samples are made, and with timers, which fire on the way back from the kernel, all
 * of this does nothing.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_KERNEL_TIME_H
#define SELFSAMPLE_CORE_KERNEL_TIME_H

#include <stdbool.h>
#include <stdint.h>

#include "event.h"
#include "lateness.h"
#include "stack_frames.h"
#include "threads.h"

struct kernel_time {
    struct stack_builder *stacks;
    bool is_unseen; /* else nothing is done */
    const struct lateness *lateness;
    struct sampling_share *share; /* of thinned births */
    uint64_t ns;                  /* booked so far */
};

/* Is time in the kernel not sampled? */
static inline bool kernel_time_is_unseen(const struct event_traits *traits)
{
    return !traits->kernel_frames && !traits->by_timer;
}

/* Of a settled thread: takes the whole periods that passed without a record out of WEIGHT_NS, which
 * a sample is about to get, and books them. Returns the rest. */
uint64_t kernel_time_take(struct kernel_time *kernel, struct thread *thread, uint64_t weight_ns);

/* The same where its event makes no more samples, and WEIGHT_NS have passed since the last, or
 * since it began. The rest, too, is then the kernel's: thread->last_node is where it goes. */
uint64_t kernel_time_take_last(struct kernel_time *kernel, struct thread *thread,
                               uint64_t weight_ns);

/* What lies between two samples of a thread's first event. */
struct kernel_time_gap {
    uint64_t kernel_ns; /* for this time points stand that made no record */
    uint64_t lost_ns;   /* so much weigh those points of it whose records were lost */
};

/* Of a thread with its first event, which had been sampled at BEFORE_NS of its CPU time (0: never)
 * and is again at SAMPLE_NS: books the points that made no record. */
struct kernel_time_gap kernel_time_before_sample(struct kernel_time *kernel, struct thread *thread,
                                                 uint64_t before_ns, uint64_t sample_ns);

/* The same up to END_NS, after its last sample. Where its ring is full, and stays so, the kernel
 * has no occasion to tell how many records it lost: then nothing is booked. */
void kernel_time_to_end(struct kernel_time *kernel, struct thread *thread, uint64_t end_ns);

/* What of NS, which such a thread has used and no point stands for, goes to thread->kernel_node:
 * that part of its points did, as far as they are known. The rest is thread->seen_node's. 0 where
 * only one of these is known: it is all thread->last_node's. */
uint64_t kernel_time_part_ns(const struct thread *thread, uint64_t ns);

#endif
