/* Streams relocations. Runs in the helper; reads 4 KiB at a time. */
#include "elf_reloc.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "arch.h"

#define SECTION_BYTES_MAX (256u * 1024 * 1024) /* more are nobody's; browsers have some 20 MB */

int elf_relocs_open(struct elf_relocs *relocs, const struct elf_file *file, const char *section)
{
    relocs->file = file;
    relocs->next_offset = 0;
    relocs->buffered = relocs->at = 0;
    bool found = elf_section_find(file, section, &relocs->section) && relocs->section.in_file &&
                 !relocs->section.compressed && relocs->section.bytes <= SECTION_BYTES_MAX;
    return found ? 0 : -ENOENT;
}

static bool buffer_fill(struct elf_relocs *relocs)
{
    uint64_t left = relocs->section.bytes - relocs->next_offset;
    long got = elf_source_read(&relocs->file->source, relocs->section.offset + relocs->next_offset,
                               relocs->buffer,
                               left < sizeof relocs->buffer ? (size_t)left : sizeof relocs->buffer);
    relocs->at = 0;
    relocs->buffered = got > 0 ? (size_t)got - (size_t)got % sizeof(Elf64_Rela) : 0;
    relocs->next_offset += relocs->buffered;
    return relocs->buffered > 0;
}

static bool reloc_take(const Elf64_Rela *raw, struct elf_reloc *reloc)
{
    *reloc = (struct elf_reloc){.slot_vaddr = raw->r_offset,
                                .symbol = (uint32_t)ELF64_R_SYM(raw->r_info)};
    switch (ELF64_R_TYPE(raw->r_info)) {
    case ARCH_RELOC_JUMP_SLOT:
    case ARCH_RELOC_GLOB_DAT:
        return reloc->symbol != 0;
    case ARCH_RELOC_IRELATIVE:
        reloc->resolver_vaddr = (uint64_t)raw->r_addend;
        return reloc->resolver_vaddr != 0;
    default:
        return false;
    }
}

bool elf_relocs_next(struct elf_relocs *relocs, struct elf_reloc *reloc)
{
    for (;;) {
        Elf64_Rela raw;
        if (relocs->at == relocs->buffered && !buffer_fill(relocs))
            return false;
        memcpy(&raw, relocs->buffer + relocs->at, sizeof raw);
        relocs->at += sizeof raw;
        if (reloc_take(&raw, reloc))
            return true;
    }
}

const char *elf_reloc_symbol_name(const struct elf_symtab *dynsym, uint32_t index,
                                  struct arena *arena)
{
    Elf64_Sym raw;
    uint64_t at = (uint64_t)index * sizeof raw;
    if (at >= dynsym->symbols.bytes || dynsym->symbols.bytes - at < sizeof raw ||
        !elf_source_read_all(&dynsym->file->source, dynsym->symbols.offset + at, &raw,
                             sizeof raw) ||
        raw.st_name == 0)
        return NULL;
    return elf_symtab_name(dynsym, raw.st_name, arena);
}
