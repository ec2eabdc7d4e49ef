/*
 * The calling-context tree, over uthash. Runs in the helper. Never allocates but from its arena,
 * never gives memory back, never loses a sample without telling.
 */
#include "profile.h"

#include <errno.h>
#include <stdbool.h>

/* Every function here that adds to a table has the profile at hand under this name. What uthash
 * frees is an outgrown bucket array, which the arena keeps. */
#define uthash_malloc(size)        arena_alloc(profile->arena, size)
#define uthash_free(pointer, size) ((void)(pointer))
#define HASH_NONFATAL_OOM          1
#include <uthash.h>

struct profile_frame_entry {
    struct profile_frame frame;
    UT_hash_handle hh;
};

struct profile_node_entry {
    struct profile_node node;
    UT_hash_handle hh;
};

/* A key is the start of what it finds. */
#define FRAME_KEY_BYTES (offsetof(struct profile_frame, module) + sizeof(uint32_t))
#define NODE_KEY_BYTES  (offsetof(struct profile_node, frame) + sizeof(uint32_t))

/* Two numbers into 32 bits of which the low ones, which uthash uses, depend on every bit of both:
 * the finalizer of splitmix64. */
static uint32_t key_hash(uint64_t high, uint64_t low)
{
    uint64_t mixed = low + high * 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return (uint32_t)(mixed ^ (mixed >> 31));
}

void profile_init(struct profile *profile, struct arena *arena)
{
    memset(profile, 0, sizeof *profile);
    profile->arena = arena;
    sequence_init(&profile->frames, arena, sizeof(struct profile_frame_entry));
    sequence_init(&profile->nodes, arena, sizeof(struct profile_node_entry));
}

/* uthash leaves an entry without a table where it could not add it. */
static uint32_t frame_add(struct profile *profile, const struct profile_frame *key, uint32_t hash)
{
    struct profile_frame_entry *entry = sequence_append(&profile->frames);
    if (entry == NULL)
        return PROFILE_NONE;
    entry->frame = *key;
    entry->frame.index = profile->frames.count - 1;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, profile->frames_by_key, &entry->frame, FRAME_KEY_BYTES, hash,
                                entry);
    if (entry->hh.tbl != NULL)
        return entry->frame.index;
    sequence_drop_last(&profile->frames);
    return PROFILE_NONE;
}

uint32_t profile_frame(struct profile *profile, uint32_t module, uint64_t address)
{
    const struct profile_frame key = {.address = address, .module = module};
    uint32_t hash = key_hash(module, address);
    struct profile_frame_entry *entry;
    HASH_FIND_BYHASHVALUE(hh, profile->frames_by_key, &key, FRAME_KEY_BYTES, hash, entry);
    return entry != NULL ? entry->frame.index : frame_add(profile, &key, hash);
}

static uint32_t node_add(struct profile *profile, const struct profile_node *key, uint32_t hash)
{
    struct profile_node_entry *entry = sequence_append(&profile->nodes);
    if (entry == NULL)
        return PROFILE_NONE;
    struct profile_node *node = &entry->node;
    *node = *key;
    node->index = profile->nodes.count - 1;
    node->depth =
        key->parent == PROFILE_NONE ? 1 : profile_node_at(profile, key->parent)->depth + 1;
    HASH_ADD_KEYPTR_BYHASHVALUE(hh, profile->nodes_by_key, node, NODE_KEY_BYTES, hash, entry);
    if (entry->hh.tbl == NULL) {
        sequence_drop_last(&profile->nodes);
        return PROFILE_NONE;
    }
    if (node->depth > profile->depth_max)
        profile->depth_max = node->depth;
    return node->index;
}

uint32_t profile_child(struct profile *profile, uint32_t parent, uint32_t frame)
{
    const struct profile_node key = {.parent = parent, .frame = frame};
    uint32_t hash = key_hash(parent, frame);
    struct profile_node_entry *entry;
    HASH_FIND_BYHASHVALUE(hh, profile->nodes_by_key, &key, NODE_KEY_BYTES, hash, entry);
    return entry != NULL ? entry->node.index : node_add(profile, &key, hash);
}

const struct profile_frame *profile_frame_at(const struct profile *profile, uint32_t index)
{
    const struct profile_frame_entry *entry = sequence_at(&profile->frames, index);
    return &entry->frame;
}

const struct profile_node *profile_node_at(const struct profile *profile, uint32_t index)
{
    const struct profile_node_entry *entry = sequence_at(&profile->nodes, index);
    return &entry->node;
}

void profile_charge(struct profile *profile, uint32_t node, uint64_t samples, uint64_t weight_ns)
{
    struct profile_node_entry *entry = sequence_at(&profile->nodes, node);
    entry->node.samples += samples;
    entry->node.weight_ns += weight_ns;
}

/* The node for as many of the outer frames as there is memory for; *DEPTH is how many those are. */
static uint32_t path_follow(struct profile *profile, const uint32_t *frames, size_t count,
                            size_t *depth)
{
    uint32_t node = PROFILE_NONE;
    for (*depth = 0; *depth < count && frames[*depth] != PROFILE_NONE; ++*depth) {
        uint32_t child = profile_child(profile, node, frames[*depth]);
        if (child == PROFILE_NONE)
            break;
        node = child;
    }
    return node;
}

int profile_add(struct profile *profile, const uint32_t *frames_root_first, size_t count,
                uint64_t weight_ns, uint32_t *charged)
{
    size_t depth;
    uint32_t node = path_follow(profile, frames_root_first, count, &depth);
    if (charged != NULL)
        *charged = node;
    profile->samples++;
    profile->weight_ns += weight_ns;
    if (node == PROFILE_NONE) {
        profile->dropped_samples++;
        profile->dropped_weight_ns += weight_ns;
        return count == 0 ? -EINVAL : -ENOMEM;
    }
    profile_charge(profile, node, 1, weight_ns);
    if (depth == count)
        return 0;
    profile->shortened_samples++;
    profile->shortened_weight_ns += weight_ns;
    return -ENOMEM;
}

uint32_t profile_node_for(struct profile *profile, const uint32_t *frames_root_first, size_t count)
{
    size_t depth;
    return path_follow(profile, frames_root_first, count, &depth);
}

void profile_top_up(struct profile *profile, uint32_t node, uint64_t weight_ns)
{
    profile->weight_ns += weight_ns;
    profile_charge(profile, node, 0, weight_ns);
}

void profile_take_back(struct profile *profile, uint32_t node, uint64_t weight_ns)
{
    struct profile_node_entry *entry = sequence_at(&profile->nodes, node);
    if (weight_ns > entry->node.weight_ns)
        weight_ns = entry->node.weight_ns;
    profile->weight_ns -= weight_ns;
    entry->node.weight_ns -= weight_ns;
}
