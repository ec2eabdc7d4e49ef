/*
 * Sorting without qsort, which may call malloc: a heap sort, so neither recursion nor extra memory
 * nor a bad case. It sorts indices (or any 32-bit keys); what they stand for is the caller's.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_SORT_H
#define SELFSAMPLE_CORE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Puts COUNT items in the order of BEFORE, which tells whether A must stand before B. Items of
 * which neither must stand first end in any order: let the item itself decide where that matters.
 */
void sort_indices(uint32_t *items, size_t count,
                  bool (*before)(const void *context, uint32_t a, uint32_t b), const void *context);

#endif
