/*
 * Folded stacks, the text that flame graphs are made of: one line for each distinct stack of names,
 *
 *     root;caller;leaf COUNT
 *
 * as stackcollapse-perf.pl of FlameGraph writes them. Frames of one name under the same callers are
 * one frame, whatever their addresses. Stacks stand depth first, the heavier branch before the
 * lighter one, those of equal weight in the order of their names.
 *
 * Counts are whole numbers of the unit whose sum is that of the exact weights, rounded: the stacks
 * with the largest remainders get what rounding down left over. Stacks with nothing are left out.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_FOLDED_H
#define SELFSAMPLE_CORE_FOLDED_H

#include <stdint.h>

#include "arena.h"
#include "config.h"
#include "name_tree.h"
#include "outfile.h"
#include "profile.h"
#include "text.h"

/* Stands for the frames in the midst of a very deep stack, in a file that would be too long. */
#define FOLDED_LEFT_OUT "[...]"

/*
 * Writes NAMED into OUT, which has been begun. SCRATCH is given back as it was; names must not be
 * kept in it. Where it has too little memory the same stacks are written unsorted and unmerged, on
 * several lines each, with the same sum.
 *
 * Returns 0, or the error of OUT, with which outfile_commit will fail too.
 */
int folded_write(const struct named_profile *named, struct outfile *out, struct arena *scratch);

/* What a count of 1 stands for, where one sample stands for PERIOD_NS; at least 1. */
uint64_t folded_unit_ns(enum config_unit unit, uint64_t period_ns);

/* Appends NAME with `;` as `:` and control characters as `_`. UTF-8 stays. */
void folded_clean_name(struct text *text, const char *name);

#endif
