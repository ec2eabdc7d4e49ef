/*
 * .eh_frame_hdr: the sorted table with which an address is looked up in .eh_frame. Read from the
 * file on each look-up; nothing is loaded.
 *
 * Source of the format: LSB 5.0 section 10.6.2. Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_CFI_HDR_H
#define SELFSAMPLE_CORE_CFI_HDR_H

#include <stdbool.h>
#include <stdint.h>

struct elf_file;

struct cfi_hdr {
    uint64_t vaddr; /* of the section: the table's offsets are relative to it */
    uint64_t table_vaddr;
    uint32_t count; /* of the table's entries, two int32 each; they lie within the section */
};

/*
 * 0; -ENOENT: the file has no such section, no table in it, or an empty one, or one in an encoding
 * that no linker makes (other than datarel sdata4).
 */
int cfi_hdr_read(struct cfi_hdr *hdr, const struct elf_file *file);

/* The FDE of the last function that begins at or before VADDR; false: there is none. */
bool cfi_hdr_find(const struct cfi_hdr *hdr, const struct elf_file *file, uint64_t vaddr,
                  uint64_t *fde_vaddr);

#endif
