/*
 * What was sampled, counted: a calling-context tree. A frame is a place in a module; a node is a
 * frame under a parent node, with the weight of the samples that ended there. Memory grows with the
 * number of distinct stacks, not with time: 40 bytes a node, 16 a frame, and for each 21 to 43
 * bytes of a hash table that doubles (the arena keeps the old ones: as much again, at most).
 *
 * What a module number means is the caller's affair: the profile only compares.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_PROFILE_H
#define SELFSAMPLE_CORE_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"
#include "sequence.h"

#define PROFILE_NONE UINT32_MAX /* no frame, no node */

struct profile_frame {
    uint64_t address;
    uint32_t module;
    uint32_t index; /* its own */
};

struct profile_node {
    uint32_t parent; /* node, always of a smaller index; PROFILE_NONE: a root */
    uint32_t frame;
    uint32_t index;     /* its own */
    uint32_t depth;     /* of a root: 1 */
    uint64_t samples;   /* that ended here, those of its children not included */
    uint64_t weight_ns; /* likewise */
};

struct profile_slot;

/* Finds frames or nodes by what they are. */
struct profile_table {
    struct profile_slot *slots;
    uint32_t size; /* 0, or a power of two */
    uint32_t used; /* less than the size */
};

/* The last deep stack, root first, and the nodes of its frames. */
struct profile_path {
    uint32_t *frames, *nodes;
    size_t count, room;
};

struct profile {
    struct arena *arena;
    struct sequence frames, nodes;
    struct profile_table frames_by_key, nodes_by_key;
    uint32_t depth_max; /* of the deepest node */
    struct profile_path path;

    uint64_t samples, weight_ns; /* all that profile_add was given */
    uint64_t shortened_samples,
        shortened_weight_ns;                     /* of these: out of memory, charged to a caller */
    uint64_t dropped_samples, dropped_weight_ns; /* of these: out of memory, in no node */
};

/* An empty profile; allocates nothing yet. ARENA must outlive it. */
void profile_init(struct profile *profile, struct arena *arena);

/* The index of a frame, the same for the same place; PROFILE_NONE when out of memory. */
uint32_t profile_frame(struct profile *profile, uint32_t module, uint64_t address);

/* The index of the node for FRAME under PARENT (PROFILE_NONE: a root), made if there is none yet;
 * PROFILE_NONE when out of memory. FRAME may be any number where the caller alone reads it back. */
uint32_t profile_child(struct profile *profile, uint32_t parent, uint32_t frame);

/* Adds samples to a node, past the totals of the profile. */
void profile_charge(struct profile *profile, uint32_t node, uint64_t samples, uint64_t weight_ns);

/*
 * Counts one sample. Returns 0; -ENOMEM where the stack could not be kept whole (a PROFILE_NONE
 * among the frames included): then its weight went to the deepest node there was for its outer
 * frames, or, with none, to dropped_*; -EINVAL for an empty stack, which counts as dropped too.
 * CHARGED, if not NULL, is set to the node that got the weight (PROFILE_NONE: none).
 */
int profile_add(struct profile *profile, const uint32_t *frames_root_first, size_t count,
                uint64_t weight_ns, uint32_t *charged);

/* The node of a stack without counting anything, made if there is none yet; PROFILE_NONE when out
 * of memory. */
uint32_t profile_node_for(struct profile *profile, const uint32_t *frames_root_first, size_t count);

/* Adds weight without a sample to a node and to the totals: time that a thread has used since the
 * sample that NODE got. */
void profile_top_up(struct profile *profile, uint32_t node, uint64_t weight_ns);

/* The reverse: takes up to WEIGHT_NS off a node and the totals, as far as the node has it. */
void profile_take_back(struct profile *profile, uint32_t node, uint64_t weight_ns);

/* For writers: indices run from 0 to the count; parents come before their children. */
static inline uint32_t profile_frame_count(const struct profile *profile)
{
    return profile->frames.count;
}

static inline uint32_t profile_node_count(const struct profile *profile)
{
    return profile->nodes.count;
}

/* INDEX must be less than the count. The pointers stay valid as long as the arena. */
const struct profile_frame *profile_frame_at(const struct profile *profile, uint32_t index);
const struct profile_node *profile_node_at(const struct profile *profile, uint32_t index);

#endif
