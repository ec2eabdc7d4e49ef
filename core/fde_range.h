/*
 * Where functions begin and end, as the unwind information of their file knows it. Stripping leaves
 * that information in place, so a stripped function still is one function.
 *
 * Thread safety: reading a struct fde_ranges keeps no state.
 */
#ifndef SELFSAMPLE_CORE_FDE_RANGE_H
#define SELFSAMPLE_CORE_FDE_RANGE_H

#include "cfi_hdr.h"
#include "cfi_section.h"

struct fde_ranges {
    const struct elf_file *file;
    bool has_hdr;            /* searched in the file, through .eh_frame_hdr */
    struct cfi_hdr hdr;      /* where has_hdr */
    struct cfi_sections all; /* else: loaded as a whole, in the arena */
};

/*
 * Prepares look-ups in FILE, which must stay open. Uses the arena only where there is no search
 * table. 0, -ENOENT where the file has no unwind information, -ENOMEM; after an error every look-up
 * finds nothing.
 */
int fde_ranges_open(struct fde_ranges *ranges, const struct elf_file *file, struct arena *arena);

/* The function [*START, *END) that covers the link-time address VADDR; false where none does. */
bool fde_range_find(const struct fde_ranges *ranges, uint64_t vaddr, uint64_t *start,
                    uint64_t *end);

#endif
