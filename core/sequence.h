/*
 * A growing array in an arena: elements of one size, found by index, that never move.
 *
 * An arena cannot give the old half back after a doubling, and others keep pointers to elements, so
 * elements live in blocks of SEQUENCE_BLOCK, found through two levels of tables. It holds up to
 * SEQUENCE_MAX elements.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_SEQUENCE_H
#define SELFSAMPLE_CORE_SEQUENCE_H

#include <stddef.h>
#include <stdint.h>

#include "arena.h"

#define SEQUENCE_BLOCK 256u                      /* elements of a block, and blocks of a group */
#define SEQUENCE_MAX   (256u * 256u * 256u - 1u) /* elements; less than UINT32_MAX */

struct sequence {
    struct arena *arena;
    size_t element_bytes;
    uint32_t count;
    char **groups[SEQUENCE_BLOCK]; /* [index / 65536][index / 256 % 256] is a block */
};

/* An empty sequence; allocates nothing yet. ARENA must outlive it. */
void sequence_init(struct sequence *sequence, struct arena *arena, size_t element_bytes);

/* Adds one element, zeroed, at index count; NULL where there is no memory or it is full. */
void *sequence_append(struct sequence *sequence);

/* Takes the last element back; there must be one. */
void sequence_drop_last(struct sequence *sequence);

/* The element at INDEX, which must be less than count. */
void *sequence_at(const struct sequence *sequence, uint32_t index);

#endif
