/*
 * All FDEs of a file that has no usable search table, sorted by address: .eh_frame, and
 * .debug_frame where .eh_frame has nothing.
 *
 * Thread safety: one task at a time per struct cfi_sections.
 */
#ifndef SELFSAMPLE_CORE_CFI_SECTION_H
#define SELFSAMPLE_CORE_CFI_SECTION_H

#include <stddef.h>
#include <stdint.h>

#include "cfi_entry.h"

struct arena;
struct elf_file;

struct cfi_section_cie {
    size_t start; /* index in its section */
    uint32_t section;
    struct cfi_cie cie;
};

struct cfi_section_fde {
    struct cfi_fde fde;
    uint32_t cie;     /* index in cies */
    uint32_t section; /* 0: .eh_frame, 1: .debug_frame */
};

struct cfi_sections {
    struct cfi_bytes sections[2]; /* of no bytes where the file has none */
    struct cfi_section_cie *cies; /* in the order of the sections */
    struct cfi_section_fde *fdes; /* in no order */
    uint32_t *order;              /* indices of fdes by start address, none overlapping */
    uint32_t cie_count;
    uint32_t fde_count;
    uint32_t order_count;
};

/*
 * Loads and indexes both sections into ARENA (their sizes and 60 bytes an FDE). Only FDEs for code
 * of this file are taken: a linker that drops a function leaves its .debug_frame entry at address
 * 0. 0, -ENOENT where there is no FDE, -ENOMEM. Compressed sections count as absent.
 */
int cfi_sections_load(struct cfi_sections *all, const struct elf_file *file, struct arena *arena);

#endif
