/*
 * Pieces of code that come and go at the same addresses: which one was there when?
 *
 * Each piece has a time from which it is known to be there, and is there until a younger one covers
 * the address. Pieces are found through hash chains by page, the youngest first; large ones through
 * chains by a larger granule. Nothing is ever taken out, so memory is bounded by a limit of pieces.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_CODE_INDEX_H
#define SELFSAMPLE_CORE_CODE_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "sequence.h"

#define CODE_PIECES_MAX      (2u << 20)
#define CODE_PIECE_BYTES_MAX (128u << 20)

#define CODE_NONE UINT32_MAX

struct code_piece {
    uint64_t start;
    uint64_t from_ns; /* known to be there at this time and later, as the caller counts it */
    uint64_t tag;     /* the caller's */
    uint32_t bytes;
    uint32_t note; /* the caller's, 0 at first */
};

struct code_index {
    struct arena *arena;
    struct sequence pieces; /* in the order in which they came */
    struct sequence links;
    uint32_t *heads; /* NULL: nothing has been added */
};

/* An empty index; allocates nothing yet. ARENA must outlive it. */
void code_index_init(struct code_index *index, struct arena *arena);

/* Adds a piece, younger than all before it. 0; -EINVAL: empty, too large, or it would reach around
 * the end of the address space; -ENOSPC: too many; -ENOMEM. */
int code_index_add(struct code_index *index, uint64_t start, uint64_t bytes, uint64_t from_ns,
                   uint64_t tag);

/*
 * The piece that covered ADDRESS at NOW_NS: the youngest that was known to be there then; where
 * none was yet, the oldest. CODE_NONE: no piece ever covered it. *SETTLED: the answer is the same
 * for all later times, as long as nothing is added.
 */
uint32_t code_index_find(const struct code_index *index, uint64_t address, uint64_t now_ns,
                         bool *settled);

/* The piece at NUMBER, less than the count of pieces. */
struct code_piece *code_index_at(const struct code_index *index, uint32_t number);

#endif
