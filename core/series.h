/*
 * A profile in parts: each is what has been counted since the part before, so that whoever collects
 * them may add them up. The weights of all parts are, stack by stack, those of the whole.
 *
 * Weight can be taken back from a stack after a part has told of it (profile_take_back). No part
 * has less than nothing of any stack; so the weight is taken off other stacks of the next part, and
 * given back to these when the first one has got that much again.
 *
 * Memory: 16 bytes for each node of the profile, as long as the series.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_SERIES_H
#define SELFSAMPLE_CORE_SERIES_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "profile.h"
#include "sequence.h"

struct series {
    struct arena arena;
    struct sequence nodes; /* of what has been told of each node of the profile */
};

struct series_part {
    struct profile profile; /* the frames of the whole, and nodes of the same numbers */
    uint64_t weight_ns;     /* of all nodes */
    int64_t *owed_ns;       /* for struct named_profile */
};

void series_init(struct series *series);

/* Makes the next part of WHOLE, in SCRATCH. False where there is too little memory. */
bool series_part_make(struct series *series, const struct profile *whole, struct series_part *part,
                      struct arena *scratch);

/* PART has been told. One that is not said to be is in the next one, too. */
void series_part_told(struct series *series, const struct series_part *part);

void series_close(struct series *series);

#endif
