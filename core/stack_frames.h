/*
 * One sample's frames, as the profile wants them: root first, the thread on top, the kernel's part
 * at the leaf, frames of selfsample itself left out.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_STACK_FRAMES_H
#define SELFSAMPLE_CORE_STACK_FRAMES_H

#include <stddef.h>

#include "collector.h"

#define STACK_KERNEL_FRAMES_MAX 256u
#define STACK_FRAMES_MAX        (UNWIND_FRAMES_MAX + STACK_KERNEL_FRAMES_MAX + 4u)

/* Fills collector->frames from the record of THREAD. Returns how many, and how the stack ended. */
size_t stack_frames(struct collector *collector, struct thread *thread, const struct record *record,
                    enum unwind_end *end);

/* Books WEIGHT_NS of THREAD as time in the kernel whose stack could not be seen. */
void stack_frames_book_kernel(struct collector *collector, struct thread *thread,
                              uint64_t weight_ns);

#endif
