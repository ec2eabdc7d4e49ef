/*
 * One sample's frames, as the profile wants them: root first, the thread on top, under it the label
 * that the thread had, the kernel's part at the leaf, frames of selfsample itself left out.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_STACK_FRAMES_H
#define SELFSAMPLE_CORE_STACK_FRAMES_H

#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "labels.h"
#include "modules.h"
#include "perf_map.h"
#include "profile.h"
#include "sequence.h"
#include "threads.h"
#include "unwind.h"

/* Frames that are in no module, as module numbers of the profile's frames. */
#define FRAME_OF_TEXT    0xfffffff0u /* the address is an index for stack_text */
#define FRAME_OF_KERNEL  0xfffffff1u
#define FRAME_OF_UNKNOWN 0xfffffff2u /* an address where no code is known */
#define FRAME_OF_JIT     0xfffffff3u /* the address is a piece of the perf map */
#define FRAME_OF_THREAD  0xfffffff4u /* as of a text, and frame_thread_id */
#define FRAME_OF_LABEL   0xfffffff5u /* as of a text */

#define STACK_TEXT_BYTES        72u
#define STACK_KERNEL_FRAMES_MAX 256u
#define STACK_FRAMES_MAX        (UNWIND_FRAMES_MAX + STACK_KERNEL_FRAMES_MAX + 5u)

struct record;
struct code_frame;

/* Puts stacks together, one after the other. */
struct stack_builder {
    struct modules *modules;
    struct unwinder *unwinder;
    struct profile *profile;
    enum config_threads threads; /* how a thread's own frame is made */
    struct sequence texts;       /* each begins with its char[STACK_TEXT_BYTES] */
    uint32_t *text_heads;        /* chains of the texts, by hash */
    const struct labels *labels; /* NULL: none */
    struct perf_map *perf_map;   /* names of code made at run time; NULL: none */
    uint32_t *label_frames;      /* of each label, plus 1; 0: not made yet */
    struct code_frame *known;    /* frames by address */
    uint64_t seen_replaced;      /* modules->replaced when they were last valid */
    uint64_t seen_changes;       /* likewise of the perf map */
    uint64_t now_ns;             /* the time of the sample in work */
    uint64_t *ips;               /* of the sample in work, leaf first */
    uint32_t *frames;            /* of the sample in work, root first */
};

/* 0, or -ENOMEM. All arguments outlive BUILDER, and so do builder->labels and builder->perf_map, to
 * be set by the caller.
 */
int stack_builder_init(struct stack_builder *builder, struct modules *modules,
                       struct unwinder *unwinder, struct profile *profile,
                       enum config_threads threads, struct arena *arena);

/* Fills builder->frames from the record of THREAD. Returns how many, and how the stack ended. */
size_t stack_frames(struct stack_builder *builder, struct thread *thread,
                    const struct record *record, enum unwind_end *end);

/* Books WEIGHT_NS of THREAD whose stack could not be seen under a frame WHAT, a constant. Without a
 * tid it stands for all threads of its name. Returns the node, PROFILE_NONE when out of memory. */
uint32_t stack_frames_book(struct stack_builder *builder, struct thread *thread, const char *what,
                           uint64_t weight_ns);

/* The text of a FRAME_OF_TEXT, FRAME_OF_THREAD or FRAME_OF_LABEL. */
const char *stack_text(const struct stack_builder *builder, uint64_t address);

/* The thread that a FRAME_OF_THREAD is of, whose text then ends in "/ID"; 0 where threads of one
 * name are one frame. */
static inline uint32_t frame_thread_id(uint64_t address)
{
    return (uint32_t)(address >> 32);
}

#endif
