/* Takes profiles apart by time. Runs in the helper. Never changes the profile. */
#include "series.h"

#define ARENA_BYTES_MAX (512u * 1024 * 1024)

struct told {
    uint64_t weight_ns;
    int64_t owed_ns; /* of that, what counts have left out */
};

void series_init(struct series *series)
{
    arena_init(&series->arena, ARENA_BYTES_MAX);
    sequence_init(&series->nodes, &series->arena, sizeof(struct told));
}

static bool nodes_reserve(struct series *series, uint32_t count)
{
    while (series->nodes.count < count)
        if (sequence_append(&series->nodes) == NULL)
            return false;
    return true;
}

static struct profile_node *part_node(const struct series_part *part, uint32_t index)
{
    return sequence_at(&part->profile.nodes, index);
}

/* What each node has more than was told. Returns the weight that nodes have less. */
static uint64_t differences_make(const struct series *series, struct series_part *part)
{
    uint64_t less_ns = 0;
    for (uint32_t i = 0; i < part->profile.nodes.count; i++) {
        const struct told *told = sequence_at(&series->nodes, i);
        struct profile_node *node = part_node(part, i);
        part->owed_ns[i] = told->owed_ns;
        if (node->weight_ns < told->weight_ns)
            less_ns += told->weight_ns - node->weight_ns;
        node->weight_ns = node->weight_ns > told->weight_ns ? node->weight_ns - told->weight_ns : 0;
    }
    return less_ns;
}

/* Takes LESS_NS off, as far as there is anything. */
static void differences_settle(struct series_part *part, uint64_t less_ns)
{
    for (uint32_t i = 0; i < part->profile.nodes.count; i++) {
        struct profile_node *node = part_node(part, i);
        uint64_t taken_ns = node->weight_ns < less_ns ? node->weight_ns : less_ns;
        node->weight_ns -= taken_ns;
        less_ns -= taken_ns;
        part->weight_ns += node->weight_ns;
    }
}

bool series_part_make(struct series *series, const struct profile *whole, struct series_part *part,
                      struct arena *scratch)
{
    uint32_t count = profile_node_count(whole);
    *part = (struct series_part){.profile = *whole};
    part->owed_ns = arena_alloc_array(scratch, count, sizeof *part->owed_ns);
    sequence_init(&part->profile.nodes, scratch, sizeof(struct profile_node));
    if (part->owed_ns == NULL || !nodes_reserve(series, count))
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct profile_node *node = sequence_append(&part->profile.nodes);
        if (node == NULL)
            return false;
        *node = *profile_node_at(whole, i);
    }
    differences_settle(part, differences_make(series, part));
    return true;
}

void series_part_told(struct series *series, const struct series_part *part)
{
    for (uint32_t i = 0; i < part->profile.nodes.count; i++) {
        struct told *told = sequence_at(&series->nodes, i);
        told->weight_ns += part_node(part, i)->weight_ns;
        told->owed_ns = part->owed_ns[i];
    }
}

void series_close(struct series *series)
{
    arena_destroy(&series->arena);
}
