/*
 * What the user may have meant: the word most like a mistyped one.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_NEAREST_H
#define SELFSAMPLE_CORE_NEAREST_H

#include <stddef.h>

#define NEAREST_BYTES_MAX 31u /* of a word; a longer one is like no other */

/*
 * How many letters must be put in, left out, changed or swapped with their neighbour to make B of
 * A, no letter edited twice (optimal string alignment distance); capitals count as small letters.
 * NEAREST_BYTES_MAX + 1 where either is longer than that.
 */
unsigned nearest_distance(const char *a, const char *b);

/* The first of COUNT words with the smallest distance to WRONG; NULL where even that would leave
 * less than half of the longer word as it is. */
const char *nearest_word(const char *wrong, const char *const *words, size_t count);

#endif
