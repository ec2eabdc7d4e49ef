/* Finds the function around an address. Runs in the helper. */
#include "fde_range.h"

#include "elf_file.h"

/* What is read of an FDE and of its CIE: their heads. Lengths, ids and two pointers fit in 64. */
#define FDE_BYTES 64
#define CIE_BYTES 256

int fde_ranges_open(struct fde_ranges *ranges, const struct elf_file *file, struct arena *arena)
{
    *ranges = (struct fde_ranges){.file = file};
    if (cfi_hdr_read(&ranges->hdr, file) == 0) {
        ranges->has_hdr = true;
        return 0;
    }
    int error = cfi_sections_load(&ranges->all, file, arena);
    if (error != 0)
        ranges->all.order_count = 0;
    return error;
}

static bool entry_read_at(const struct elf_file *file, uint64_t vaddr, uint8_t *buffer,
                          size_t bytes, struct cfi_bytes *from, struct cfi_entry *entry)
{
    size_t got = elf_file_read_vaddr(file, vaddr, buffer, bytes);
    *from = (struct cfi_bytes){buffer, got, vaddr, false};
    return cfi_entry_read(from, 0, entry);
}

static bool find_in_file(const struct fde_ranges *ranges, uint64_t vaddr, struct cfi_fde *fde)
{
    uint8_t fde_buffer[FDE_BYTES], cie_buffer[CIE_BYTES];
    struct cfi_bytes fde_bytes, cie_bytes;
    struct cfi_entry fde_entry, cie_entry;
    struct cfi_cie cie;
    uint64_t fde_vaddr;
    return cfi_hdr_find(&ranges->hdr, ranges->file, vaddr, &fde_vaddr) &&
           entry_read_at(ranges->file, fde_vaddr, fde_buffer, sizeof fde_buffer, &fde_bytes,
                         &fde_entry) &&
           !fde_entry.is_cie &&
           entry_read_at(ranges->file, fde_entry.cie_vaddr, cie_buffer, sizeof cie_buffer,
                         &cie_bytes, &cie_entry) &&
           cie_entry.is_cie && cfi_cie_read(&cie_bytes, &cie_entry, &cie) &&
           cfi_fde_read(&fde_bytes, &fde_entry, &cie, fde);
}

static bool find_in_sections(const struct cfi_sections *all, uint64_t vaddr, struct cfi_fde *fde)
{
    uint32_t low = 0, high = all->order_count; /* the first that begins behind VADDR */
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (all->fdes[all->order[middle]].fde.start_vaddr <= vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0)
        return false;
    *fde = all->fdes[all->order[low - 1]].fde;
    return true;
}

bool fde_range_find(const struct fde_ranges *ranges, uint64_t vaddr, uint64_t *start, uint64_t *end)
{
    struct cfi_fde fde;
    bool found = ranges->has_hdr ? find_in_file(ranges, vaddr, &fde)
                                 : find_in_sections(&ranges->all, vaddr, &fde);
    if (!found || vaddr < fde.start_vaddr || vaddr >= fde.end_vaddr)
        return false;
    *start = fde.start_vaddr;
    *end = fde.end_vaddr;
    return true;
}
