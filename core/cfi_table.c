/*
 * Rewrites a module's call frame information with absolute addresses and a search table. Runs in
 * the helper. Instructions are copied as they are: the only one with an address in it,
 * DW_CFA_set_loc, is made by no compiler for this machine.
 */
#include "cfi_table.h"

#include <errno.h>
#include <string.h>

#include "arena.h"
#include "cfi_hdr.h"
#include "elf_section.h"
#include "cfi_section.h"
#include "elf_file.h"

#define ENTRY_ALIGNMENT 8u
#define CFI_BYTES_MAX   ((size_t)1 << 30) /* an index into the table has 31 bits */

/* Writes at `at`, or, without memory, only counts what it would write. */
struct writer {
    uint8_t *bytes;
    size_t at;
};

static void put(struct writer *writer, const void *bytes, size_t count)
{
    if (writer->bytes != NULL)
        memcpy(writer->bytes + writer->at, bytes, count);
    writer->at += count;
}

static void put_u8(struct writer *writer, uint8_t value)
{
    put(writer, &value, sizeof value);
}

static void put_u32(struct writer *writer, uint32_t value)
{
    put(writer, &value, sizeof value);
}

static void put_u64(struct writer *writer, uint64_t value)
{
    put(writer, &value, sizeof value);
}

static void put_uleb(struct writer *writer, uint64_t value)
{
    for (; value >= 0x80; value >>= 7)
        put_u8(writer, (uint8_t)(value | 0x80));
    put_u8(writer, (uint8_t)value);
}

static void put_sleb(struct writer *writer, int64_t value)
{
    for (; value < -0x40 || value >= 0x40; value >>= 7)
        put_u8(writer, (uint8_t)((value & 0x7f) | 0x80));
    put_u8(writer, (uint8_t)(value & 0x7f));
}

/* Pads the entry that began at START with DW_CFA_nop (0) and fills its length in. */
static void entry_finish(struct writer *writer, size_t start)
{
    while (writer->at % ENTRY_ALIGNMENT != 0)
        put_u8(writer, 0);
    uint32_t length = (uint32_t)(writer->at - start - sizeof length);
    if (writer->bytes != NULL)
        memcpy(writer->bytes + start, &length, sizeof length);
}

static void cie_put(struct writer *writer, const struct cfi_bytes *from, const struct cfi_cie *cie)
{
    size_t start = writer->at;
    const char *letters = cie->signal_frame ? "zRS" : "zR";
    put_u32(writer, 0); /* the length, see entry_finish */
    put_u32(writer, 0); /* the id of a CIE */
    put_u8(writer, 1);  /* version */
    put(writer, letters, strlen(letters) + 1);
    put_uleb(writer, cie->code_alignment);
    put_sleb(writer, cie->data_alignment);
    put_u8(writer, (uint8_t)cie->return_register);
    put_uleb(writer, 1); /* bytes of augmentation data */
    put_u8(writer, CFI_ABSPTR);
    put(writer, from->bytes + cie->instructions, cie->end - cie->instructions);
    entry_finish(writer, start);
}

static void fde_put(struct writer *writer, const struct cfi_bytes *from, const struct cfi_fde *fde,
                    size_t cie_at, uint64_t load_bias)
{
    size_t start = writer->at;
    put_u32(writer, 0);
    put_u32(writer, (uint32_t)(writer->at - cie_at));
    put_u64(writer, fde->start_vaddr + load_bias);
    put_u64(writer, fde->end_vaddr - fde->start_vaddr);
    put_uleb(writer, 0); /* bytes of augmentation data */
    put(writer, from->bytes + fde->instructions, fde->end - fde->instructions);
    entry_finish(writer, start);
}

struct build {
    const struct cfi_sections *all;
    uint64_t load_bias;
    uint64_t shadow_base;
    size_t *cie_at;                  /* where each CIE was written */
    struct cfi_table_entry *entries; /* NULL while sizes are counted */
    size_t entry_count;
};

/* Can the function's address be told as an int32 from the shadow, and its CIE in our format? */
static bool fde_fits(const struct build *build, const struct cfi_section_fde *fde)
{
    int64_t start = (int64_t)(fde->fde.start_vaddr + build->load_bias - build->shadow_base);
    return start >= INT32_MIN && start <= INT32_MAX &&
           build->all->cies[fde->cie].cie.return_register <= UINT8_MAX;
}

/* Writes all CIEs, then all FDEs in the order of their addresses. */
static void build_write(struct build *build, struct writer *writer)
{
    const struct cfi_sections *all = build->all;
    for (uint32_t i = 0; i < all->cie_count; i++) {
        build->cie_at[i] = writer->at;
        cie_put(writer, &all->sections[all->cies[i].section], &all->cies[i].cie);
    }
    build->entry_count = 0;
    for (uint32_t i = 0; i < all->order_count; i++) {
        const struct cfi_section_fde *fde = &all->fdes[all->order[i]];
        if (!fde_fits(build, fde))
            continue;
        if (build->entries != NULL)
            build->entries[build->entry_count] = (struct cfi_table_entry){
                (int32_t)(fde->fde.start_vaddr + build->load_bias - build->shadow_base),
                (int32_t)writer->at};
        build->entry_count++;
        fde_put(writer, &all->sections[fde->section], &fde->fde, build->cie_at[fde->cie],
                build->load_bias);
    }
}

static int table_make(struct cfi_table *table, struct build *build, struct arena *keep,
                      struct arena *scratch)
{
    struct writer writer = {0};
    build->cie_at = arena_alloc_array(scratch, build->all->cie_count, sizeof *build->cie_at);
    if (build->cie_at == NULL)
        return -ENOMEM;
    build_write(build, &writer);
    if (build->entry_count == 0)
        return -ENOENT;
    if (writer.at > CFI_BYTES_MAX)
        return -ENOMEM;
    build->entries = arena_alloc_array(keep, build->entry_count, sizeof *build->entries);
    writer = (struct writer){.bytes = arena_alloc(keep, writer.at)};
    if (build->entries == NULL || writer.bytes == NULL)
        return -ENOMEM;
    build_write(build, &writer);
    *table = (struct cfi_table){.load_bias = build->load_bias,
                                .shadow_base = build->shadow_base,
                                .bytes = writer.bytes,
                                .bytes_count = writer.at,
                                .entries = build->entries,
                                .entry_count = build->entry_count};
    return 0;
}

bool cfi_table_needed(const struct elf_file *file)
{
    struct cfi_hdr hdr;
    struct elf_section section;
    /* A program of which only the start files came with .eh_frame has a search table, of those. */
    return cfi_hdr_read(&hdr, file) != 0 || elf_section_find(file, ".debug_frame", &section);
}

int cfi_table_build(struct cfi_table *table, const struct elf_file *file, uint64_t load_bias,
                    uint64_t shadow_base, struct arena *keep, struct arena *scratch)
{
    struct cfi_sections all;
    struct arena_mark keep_mark = arena_mark(keep), scratch_mark = arena_mark(scratch);
    *table = (struct cfi_table){0};
    int error = cfi_sections_load(&all, file, scratch);
    if (error == 0) {
        struct build build = {.all = &all, .load_bias = load_bias, .shadow_base = shadow_base};
        error = table_make(table, &build, keep, scratch);
    }
    if (error != 0)
        arena_release(keep, keep_mark);
    arena_release(scratch, scratch_mark);
    return error;
}
