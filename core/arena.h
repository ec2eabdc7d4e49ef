/*
 * Memory of the helper: a bump allocator over private anonymous mappings.
 *
 * malloc belongs to the app (which may define its own, not thread-safe, or hold its lock), so
 * nothing in core ever calls it. An arena gives memory out and takes it back only as a whole, or
 * back to a mark. Memory is zeroed and aligned to 16 bytes. An arena that reaches its limit, or is
 * refused by the kernel, returns NULL: every caller must be able to go on without.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_ARENA_H
#define SELFSAMPLE_CORE_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *newest;
    size_t limit_bytes;  /* of all mappings together; 0: no limit */
    size_t mapped_bytes; /* now */
    size_t peak_bytes;   /* the most that was ever mapped */
    int fail_countdown;  /* tests: when it counts down to 0 that allocation fails; 0: never */
};

struct arena_mark {
    struct arena_chunk *chunk;
    size_t used;
};

/* Makes an empty arena; maps nothing yet. */
void arena_init(struct arena *arena, size_t limit_bytes);

/* BYTES of zeroed memory aligned to 16, or NULL. 0 bytes count as 1. */
void *arena_alloc(struct arena *arena, size_t bytes);

/* COUNT elements of BYTES each, or NULL also where the product overflows. */
void *arena_alloc_array(struct arena *arena, size_t count, size_t bytes);

/* A copy of LENGTH bytes with a NUL behind them, or NULL. */
char *arena_copy_text(struct arena *arena, const char *text, size_t length);

/* All that is allocated after a mark is given back by arena_release, whole chunks to the kernel. */
struct arena_mark arena_mark(const struct arena *arena);
void arena_release(struct arena *arena, struct arena_mark mark);

/* Unmaps everything; the arena is empty and usable again. */
void arena_destroy(struct arena *arena);

#endif
