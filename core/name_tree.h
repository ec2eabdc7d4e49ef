/*
 * A profile by the names of its frames: frames of one name under the same callers are one node,
 * whatever their addresses, and each node has a count, a whole number of a unit. What the written
 * profiles have in common.
 *
 * The counts' sum is that of the exact weights, rounded: the nodes with the largest remainders get
 * what rounding down left over.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_NAME_TREE_H
#define SELFSAMPLE_CORE_NAME_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "profile.h"

/* Code whose functions are not known. Such frames that call each other are one. */
#define NAMELESS_CODE "[jit]"

/* What a frame of the profile is called: without `;` and control characters, and valid until the
 * profile has been written. NULL and "" are shown as [unknown]. It may be asked more than once for
 * the same frame. */
struct name_source {
    const char *(*frame_name)(void *context, uint32_t frame);
    void *context;
};

/* What is to be written. */
struct named_profile {
    const struct profile *profile;
    struct name_source names;
    uint64_t unit_ns; /* of the counts; 1 s at most */
    /* By node of the profile: weight that earlier counts left out or (< 0) were ahead of. It goes
     * into the counts, and what these leave out takes its place. NULL: there is none. */
    int64_t *owed_ns;
};

struct name_tree {
    /* Names have numbers, equal for equal text, in the order of the text. */
    const char **texts; /* by number */
    uint32_t *numbers;  /* by frame of the profile */
    uint32_t names;     /* how many */

    struct profile merged; /* its frames are numbers of names */
    uint32_t *nodes;       /* by node of the profile: its node of `merged` */
    uint64_t *counts;      /* by node of `merged`, what is below it not included; in units */
    int64_t *owed_ns;      /* of use within name_tree_make only */
};

/* Makes the tree of NAMED. False where ARENA has too little memory, of which it keeps what was had;
 * then named->owed_ns is as it was. */
bool name_tree_make(struct name_tree *tree, const struct named_profile *named, struct arena *arena);

/* The text of a frame. */
const char *name_source_text(struct name_source source, uint32_t frame);

/* WEIGHT_NS in units, rounded to the nearest. */
uint64_t name_tree_rounded(uint64_t weight_ns, uint64_t unit_ns);

#endif
