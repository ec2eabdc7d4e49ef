/* Reads ELF section headers and contents. Runs in the helper; keeps nothing, never maps a file. */
#include "elf_section.h"

#include <elf.h>
#include <string.h>

#include "arena.h"

#define NAME_BYTES 32 /* section names that are looked for are shorter */

static enum elf_section_kind kind_of(uint32_t type)
{
    switch (type) {
    case SHT_SYMTAB:
        return ELF_SECTION_SYMTAB;
    case SHT_DYNSYM:
        return ELF_SECTION_DYNSYM;
    case SHT_NOTE:
        return ELF_SECTION_NOTE;
    default:
        return ELF_SECTION_OTHER;
    }
}

bool elf_section_read(const struct elf_file *file, unsigned index, struct elf_section *section)
{
    Elf64_Shdr header;
    if (index >= file->section_count ||
        !elf_source_read_all(&file->source, file->sections_offset + (uint64_t)index * sizeof header,
                             &header, sizeof header))
        return false;
    *section = (struct elf_section){
        .vaddr = header.sh_addr,
        .offset = header.sh_offset,
        .bytes = header.sh_size,
        .alignment = header.sh_addralign,
        .link = header.sh_link,
        .name_offset = header.sh_name,
        .kind = kind_of(header.sh_type),
        .in_file = header.sh_type != SHT_NOBITS && header.sh_type != SHT_NULL,
        .executable = (header.sh_flags & SHF_EXECINSTR) != 0,
        .compressed = (header.sh_flags & SHF_COMPRESSED) != 0,
    };
    return section->bytes <= UINT64_MAX - section->offset &&
           section->bytes <= UINT64_MAX - section->vaddr;
}

static bool name_is(const struct elf_file *file, const struct elf_section *names,
                    const struct elf_section *section, const char *name, size_t name_bytes)
{
    char found[NAME_BYTES];
    return section->name_offset < names->bytes &&
           name_bytes <= names->bytes - section->name_offset &&
           elf_source_read_all(&file->source, names->offset + section->name_offset, found,
                               name_bytes) &&
           memcmp(found, name, name_bytes) == 0;
}

bool elf_section_find(const struct elf_file *file, const char *name, struct elf_section *section)
{
    struct elf_section names;
    size_t name_bytes = strlen(name) + 1;
    if (name_bytes > NAME_BYTES || !elf_section_read(file, file->section_names_index, &names))
        return false;
    for (unsigned i = 1; i < file->section_count; i++) {
        if (elf_section_read(file, i, section) && name_is(file, &names, section, name, name_bytes))
            return true;
    }
    return false;
}

bool elf_section_find_kind(const struct elf_file *file, enum elf_section_kind kind,
                           struct elf_section *section)
{
    for (unsigned i = 1; i < file->section_count; i++) {
        if (elf_section_read(file, i, section) && section->kind == kind)
            return true;
    }
    return false;
}

const uint8_t *elf_section_load(const struct elf_file *file, const struct elf_section *section,
                                size_t limit_bytes, struct arena *arena)
{
    uint8_t last;
    if (!section->in_file || section->compressed || section->bytes == 0 ||
        section->bytes > limit_bytes)
        return NULL;
    /* Asked before memory is, so that a lie about the size costs nothing. */
    if (!elf_source_read_all(&file->source, section->offset + section->bytes - 1, &last, 1))
        return NULL;
    uint8_t *bytes = arena_alloc(arena, (size_t)section->bytes);
    if (bytes == NULL ||
        !elf_source_read_all(&file->source, section->offset, bytes, (size_t)section->bytes))
        return NULL;
    return bytes;
}
