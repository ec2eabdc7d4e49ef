/* Growing array in blocks. Runs in the helper. Never moves an element, never frees. */
#include "sequence.h"

#include <string.h>

void sequence_init(struct sequence *sequence, struct arena *arena, size_t element_bytes)
{
    memset(sequence, 0, sizeof *sequence);
    sequence->arena = arena;
    sequence->element_bytes = element_bytes;
}

void *sequence_at(const struct sequence *sequence, uint32_t index)
{
    uint32_t block = index / SEQUENCE_BLOCK;
    char *elements = sequence->groups[block / SEQUENCE_BLOCK][block % SEQUENCE_BLOCK];
    return elements + index % SEQUENCE_BLOCK * sequence->element_bytes;
}

void *sequence_append(struct sequence *sequence)
{
    if (sequence->count == SEQUENCE_MAX)
        return NULL;
    uint32_t block = sequence->count / SEQUENCE_BLOCK;
    char ***group = &sequence->groups[block / SEQUENCE_BLOCK];
    if (*group == NULL)
        *group = arena_alloc_array(sequence->arena, SEQUENCE_BLOCK, sizeof **group);
    if (*group == NULL)
        return NULL;
    char **elements = &(*group)[block % SEQUENCE_BLOCK];
    if (*elements == NULL)
        *elements = arena_alloc_array(sequence->arena, SEQUENCE_BLOCK, sequence->element_bytes);
    if (*elements == NULL)
        return NULL;
    return sequence_at(sequence, sequence->count++);
}

void sequence_drop_last(struct sequence *sequence)
{
    memset(sequence_at(sequence, sequence->count - 1), 0, sequence->element_bytes);
    sequence->count--;
}
