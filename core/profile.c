/*
 * The calling-context tree, over two hash tables with linear probing. Runs in the helper. Never
 * allocates but from its arena, never gives memory back, never loses a sample without telling.
 */
#include "profile.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define SLOTS_FIRST   256u
#define PATH_KEPT_MIN 256u /* frames of a deep stack */

/* The key is in the slot, so that a look-up in a table that has left the processor's caches waits
 * for memory once. */
struct profile_slot {
    uint64_t key;
    uint32_t module; /* of a frame, whose key is the address */
    uint32_t number; /* of what is found, plus 1; 0: the slot is free */
};

/* Every bit of the result depends on every bit of both: the finalizer of splitmix64. */
static uint64_t mixed(uint64_t high, uint64_t low)
{
    uint64_t value = low + high * 0x9e3779b97f4a7c15u;
    value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
    value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
    return value ^ (value >> 31);
}

/* The slot of that key, or the free one where it belongs. The table has a free slot. */
static struct profile_slot *slot_find(const struct profile_table *table, uint64_t key,
                                      uint32_t module)
{
    uint64_t at = mixed(module, key);
    for (;; at++) {
        struct profile_slot *slot = &table->slots[at & (table->size - 1)];
        if (slot->number == 0 || (slot->key == key && slot->module == module))
            return slot;
    }
}

/* What the table has for the key; PROFILE_NONE: nothing. */
static uint32_t number_find(const struct profile_table *table, uint64_t key, uint32_t module)
{
    if (table->size == 0)
        return PROFILE_NONE;
    return slot_find(table, key, module)->number - 1; /* 0 becomes PROFILE_NONE */
}

/* Doubles the table; it stays as it is where there is no memory. The arena keeps the old slots. */
static void table_grow(struct profile_table *table, struct arena *arena)
{
    struct profile_table grown = *table;
    grown.size = table->size == 0 ? SLOTS_FIRST : table->size * 2;
    grown.slots = arena_alloc_array(arena, grown.size, sizeof *grown.slots);
    if (grown.slots == NULL)
        return;
    for (uint32_t i = 0; i < table->size; i++) {
        const struct profile_slot *slot = &table->slots[i];
        if (slot->number != 0)
            *slot_find(&grown, slot->key, slot->module) = *slot;
    }
    *table = grown;
}

/* Makes room for one more. False: there is none, and no memory for more. A table that can't grow is
 * filled up to seven eighths, where look-ups still end soon. */
static bool table_reserve(struct profile_table *table, struct arena *arena)
{
    if (table->used >= table->size / 4 * 3)
        table_grow(table, arena);
    return table->used < table->size / 8 * 7;
}

/* Enters what was not found. */
static void table_enter(struct profile_table *table, uint64_t key, uint32_t module, uint32_t number)
{
    *slot_find(table, key, module) = (struct profile_slot){key, module, number + 1};
    table->used++;
}

void profile_init(struct profile *profile, struct arena *arena)
{
    memset(profile, 0, sizeof *profile);
    profile->arena = arena;
    sequence_init(&profile->frames, arena, sizeof(struct profile_frame));
    sequence_init(&profile->nodes, arena, sizeof(struct profile_node));
}

static uint32_t frame_add(struct profile *profile, uint32_t module, uint64_t address)
{
    struct profile_frame *frame = NULL;
    if (table_reserve(&profile->frames_by_key, profile->arena))
        frame = sequence_append(&profile->frames);
    if (frame == NULL)
        return PROFILE_NONE;
    *frame = (struct profile_frame){address, module, profile->frames.count - 1};
    table_enter(&profile->frames_by_key, address, module, frame->index);
    return frame->index;
}

uint32_t profile_frame(struct profile *profile, uint32_t module, uint64_t address)
{
    uint32_t number = number_find(&profile->frames_by_key, address, module);
    return number != PROFILE_NONE ? number : frame_add(profile, module, address);
}

static uint32_t node_add(struct profile *profile, uint32_t parent, uint32_t frame, uint64_t key)
{
    struct profile_node *node = NULL;
    if (table_reserve(&profile->nodes_by_key, profile->arena))
        node = sequence_append(&profile->nodes);
    if (node == NULL)
        return PROFILE_NONE;
    *node = (struct profile_node){
        .parent = parent, .frame = frame, .index = profile->nodes.count - 1, .depth = 1};
    if (parent != PROFILE_NONE)
        node->depth += profile_node_at(profile, parent)->depth;
    table_enter(&profile->nodes_by_key, key, 0, node->index);
    if (node->depth > profile->depth_max)
        profile->depth_max = node->depth;
    return node->index;
}

uint32_t profile_child(struct profile *profile, uint32_t parent, uint32_t frame)
{
    uint64_t key = (uint64_t)parent << 32 | frame;
    uint32_t number = number_find(&profile->nodes_by_key, key, 0);
    return number != PROFILE_NONE ? number : node_add(profile, parent, frame, key);
}

const struct profile_frame *profile_frame_at(const struct profile *profile, uint32_t index)
{
    return sequence_at(&profile->frames, index);
}

const struct profile_node *profile_node_at(const struct profile *profile, uint32_t index)
{
    return sequence_at(&profile->nodes, index);
}

void profile_charge(struct profile *profile, uint32_t node, uint64_t samples, uint64_t weight_ns)
{
    struct profile_node *entry = sequence_at(&profile->nodes, node);
    entry->samples += samples;
    entry->weight_ns += weight_ns;
}

/* Room for the path of a deep stack of COUNT frames; false: there is none. */
static bool path_reserve(struct profile_path *path, size_t count, struct arena *arena)
{
    if (count <= path->room)
        return true;
    size_t room = path->room == 0 ? PATH_KEPT_MIN : path->room;
    while (room < count)
        room *= 2;
    uint32_t *frames = arena_alloc_array(arena, room, sizeof *frames);
    uint32_t *nodes = arena_alloc_array(arena, room, sizeof *nodes);
    if (frames == NULL || nodes == NULL)
        return false;
    *path = (struct profile_path){.frames = frames, .nodes = nodes, .room = room};
    return true;
}

/* How many outer frames are the same as in the last deep stack. */
static size_t path_shared(const struct profile_path *path, const uint32_t *frames, size_t count)
{
    size_t shared = 0;
    while (shared < count && shared < path->count && frames[shared] == path->frames[shared])
        shared++;
    return shared;
}

/* The node for as many of the outer frames as there is memory for; *DEPTH is how many those are.
 * Deep stacks tend to differ in few frames from the last one: the rest is not looked up again. */
static uint32_t path_follow(struct profile *profile, const uint32_t *frames, size_t count,
                            size_t *depth)
{
    struct profile_path *path = &profile->path;
    bool is_kept = count >= PATH_KEPT_MIN && path_reserve(path, count, profile->arena);
    uint32_t node = PROFILE_NONE;
    *depth = is_kept ? path_shared(path, frames, count) : 0;
    if (*depth > 0)
        node = path->nodes[*depth - 1];
    for (; *depth < count && frames[*depth] != PROFILE_NONE; ++*depth) {
        uint32_t child = profile_child(profile, node, frames[*depth]);
        if (child == PROFILE_NONE)
            break;
        node = child;
        if (is_kept) {
            path->frames[*depth] = frames[*depth];
            path->nodes[*depth] = node;
        }
    }
    if (is_kept)
        path->count = *depth;
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
    struct profile_node *entry = sequence_at(&profile->nodes, node);
    if (weight_ns > entry->weight_ns)
        weight_ns = entry->weight_ns;
    profile->weight_ns -= weight_ns;
    entry->weight_ns -= weight_ns;
}
