/* Indexes .eh_frame and .debug_frame as a whole. Runs in the helper, for the few modules without a
 * search table. */
#include "cfi_section.h"

#include <errno.h>

#include "arena.h"
#include "elf_section.h"
#include "sort.h"

#define SECTION_BYTES_MAX (64u * 1024 * 1024)

static void section_load(struct cfi_bytes *bytes, const struct elf_file *file, const char *name,
                         bool debug_frame, struct arena *arena)
{
    struct elf_section section;
    *bytes = (struct cfi_bytes){.debug_frame = debug_frame};
    if (!elf_section_find(file, name, &section))
        return;
    bytes->bytes = elf_section_load(file, &section, SECTION_BYTES_MAX, arena);
    if (bytes->bytes == NULL)
        return;
    bytes->count = (size_t)section.bytes;
    bytes->vaddr = debug_frame ? 0 : section.vaddr;
}

/* How many entries there are, so that the arrays can be made. */
static void entries_count(const struct cfi_bytes *from, size_t *cies, size_t *fdes)
{
    struct cfi_entry entry;
    size_t at = 0, start;
    while (cfi_entry_next(from, &at, &start, &entry)) {
        if (entry.is_cie)
            ++*cies;
        else
            ++*fdes;
    }
}

static void cies_take(struct cfi_sections *all, uint32_t section)
{
    const struct cfi_bytes *from = &all->sections[section];
    struct cfi_entry entry;
    size_t at = 0, start;
    while (cfi_entry_next(from, &at, &start, &entry)) {
        struct cfi_section_cie *cie = &all->cies[all->cie_count];
        if (!entry.is_cie || !cfi_cie_read(from, &entry, &cie->cie))
            continue;
        cie->start = start;
        cie->section = section;
        all->cie_count++;
    }
}

/* The index of the CIE that begins at START in that section, or cie_count. */
static uint32_t cie_find(const struct cfi_sections *all, uint32_t section, uint64_t start)
{
    uint32_t low = 0, high = all->cie_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        const struct cfi_section_cie *cie = &all->cies[middle];
        if (cie->section < section || (cie->section == section && cie->start < start))
            low = middle + 1;
        else
            high = middle;
    }
    bool found =
        low < all->cie_count && all->cies[low].section == section && all->cies[low].start == start;
    return found ? low : all->cie_count;
}

static void fdes_take(struct cfi_sections *all, uint32_t section, const struct elf_file *file)
{
    const struct cfi_bytes *from = &all->sections[section];
    struct cfi_entry entry;
    size_t at = 0, start;
    while (cfi_entry_next(from, &at, &start, &entry)) {
        if (entry.is_cie)
            continue;
        uint32_t cie = cie_find(all, section, entry.cie_vaddr - from->vaddr);
        struct cfi_section_fde *fde = &all->fdes[all->fde_count];
        if (cie == all->cie_count || !cfi_fde_read(from, &entry, &all->cies[cie].cie, &fde->fde) ||
            !elf_file_is_code(file, fde->fde.start_vaddr))
            continue;
        fde->cie = cie;
        fde->section = section;
        all->order[all->fde_count] = all->fde_count;
        all->fde_count++;
    }
}

static bool fde_before(const void *context, uint32_t a, uint32_t b)
{
    const struct cfi_sections *all = context;
    const struct cfi_section_fde *one = &all->fdes[a], *other = &all->fdes[b];
    if (one->fde.start_vaddr != other->fde.start_vaddr)
        return one->fde.start_vaddr < other->fde.start_vaddr;
    if (one->section != other->section)
        return one->section < other->section;
    return a < b;
}

/* Keeps of overlapping FDEs the one of .eh_frame, else the first. The order is sorted by start. */
static void overlaps_drop(struct cfi_sections *all)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < all->fde_count; i++) {
        const struct cfi_section_fde *fde = &all->fdes[all->order[i]];
        while (kept > 0) {
            const struct cfi_section_fde *last = &all->fdes[all->order[kept - 1]];
            if (last->fde.end_vaddr <= fde->fde.start_vaddr || last->section <= fde->section)
                break;
            kept--;
        }
        if (kept > 0 && all->fdes[all->order[kept - 1]].fde.end_vaddr > fde->fde.start_vaddr)
            continue;
        all->order[kept++] = all->order[i];
    }
    all->order_count = kept;
}

int cfi_sections_load(struct cfi_sections *all, const struct elf_file *file, struct arena *arena)
{
    size_t cies = 0, fdes = 0;
    *all = (struct cfi_sections){0};
    section_load(&all->sections[0], file, ".eh_frame", false, arena);
    section_load(&all->sections[1], file, ".debug_frame", true, arena);
    for (uint32_t i = 0; i < 2; i++)
        entries_count(&all->sections[i], &cies, &fdes);
    if (cies == 0 || fdes == 0)
        return -ENOENT;
    all->cies = arena_alloc_array(arena, cies, sizeof *all->cies);
    all->fdes = arena_alloc_array(arena, fdes, sizeof *all->fdes);
    all->order = arena_alloc_array(arena, fdes, sizeof *all->order);
    if (all->cies == NULL || all->fdes == NULL || all->order == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < 2; i++)
        cies_take(all, i);
    for (uint32_t i = 0; i < 2; i++)
        fdes_take(all, i, file);
    sort_indices(all->order, all->fde_count, fde_before, all);
    overlaps_drop(all);
    return all->order_count > 0 ? 0 : -ENOENT;
}
