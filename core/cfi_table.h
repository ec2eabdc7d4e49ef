/*
 * An unwind table for modules in which an unwinder cannot search by itself: those without
 * .eh_frame_hdr, with one that has no table, or with .debug_frame only.
 *
 * The table is two made-up sections, an .eh_frame with absolute run-time addresses and the search
 * table of an .eh_frame_hdr over it. An unwinder is told that the first lies at an address of its
 * own, the shadow, where the app has nothing: reads there must be answered from `bytes`.
 *
 * Thread safety: one task builds; what is built does not change.
 */
#ifndef SELFSAMPLE_CORE_CFI_TABLE_H
#define SELFSAMPLE_CORE_CFI_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct elf_file;

/* As in .eh_frame_hdr with encoding datarel sdata4 (LSB 5.0, 10.6.2), relative to shadow_base. */
struct cfi_table_entry {
    int32_t start; /* run-time address of the function - shadow_base */
    int32_t fde;   /* address of its FDE - shadow_base: an index into bytes */
};

struct cfi_table {
    uint64_t load_bias; /* of its run-time addresses; elsewhere its file may be loaded later */
    uint64_t shadow_base;
    const uint8_t
        *bytes; /* CIEs and FDEs, to be seen at [shadow_base, shadow_base + bytes_count) */
    size_t bytes_count;
    const struct cfi_table_entry *entries; /* sorted by start; no two overlap */
    size_t entry_count;
};

/* Does the file have no search table that an unwinder could use, or unwind information besides it?
 */
bool cfi_table_needed(const struct elf_file *file);

/*
 * Builds the table into KEEP, working in SCRATCH, which is given back. A function further than 2
 * GiB from SHADOW_BASE is left out. Personality routines and LSDAs are dropped, signal frames stay
 * marked. 0; -ENOENT: the file has no unwind information; -ENOMEM (nothing is left in KEEP then).
 */
int cfi_table_build(struct cfi_table *table, const struct elf_file *file, uint64_t load_bias,
                    uint64_t shadow_base, struct arena *keep, struct arena *scratch);

#endif
