/*
 * The names of all frames of a profile, found once, when it is written.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_FRAME_NAMES_H
#define SELFSAMPLE_CORE_FRAME_NAMES_H

#include "stack_frames.h"

struct kernel_symbols;

struct frame_names {
    const struct stack_builder *stacks; /* who made the frames */
    struct kernel_symbols *kernel;
    const char **names; /* by frame index; in the arena of names */
    uint32_t count;
    bool kernel_hidden; /* kernel addresses were sampled, but their names are withheld */
};

/* Finds the names of all frames of STACKS' profile, the kernel's with KERNEL. NAMES keeps them,
 * SCRATCH is given back. PROGRESS is moved from time to time. 0, or -ENOMEM (then some names are
 * missing). */
int frame_names_find(struct frame_names *names, const struct stack_builder *stacks,
                     struct kernel_symbols *kernel, struct arena *arena, struct arena *scratch,
                     uint32_t *progress);

/* For struct name_source; the context is a struct frame_names. */
const char *frame_name(void *context, uint32_t frame);

#endif
