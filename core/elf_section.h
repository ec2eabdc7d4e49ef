/*
 * Sections of an ELF file, read one by one when asked for. A file kept for the run (struct
 * elf_file) therefore holds none of them.
 *
 * Source of the format: System V gABI, chapter 4. Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_ELF_SECTION_H
#define SELFSAMPLE_CORE_ELF_SECTION_H

#include "elf_file.h"

enum elf_section_kind {
    ELF_SECTION_OTHER,
    ELF_SECTION_SYMTAB,
    ELF_SECTION_DYNSYM,
    ELF_SECTION_NOTE,
};

struct elf_section {
    uint64_t vaddr; /* 0 where it is not loaded */
    uint64_t offset;
    uint64_t bytes;
    uint64_t alignment;
    uint32_t link; /* index of the section it refers to */
    uint32_t name_offset;
    enum elf_section_kind kind;
    bool in_file; /* false: it occupies memory only, or it has been moved to a debug file */
    bool executable;
    bool compressed;
};

/* Reads the header of section INDEX; false where there is none. */
bool elf_section_read(const struct elf_file *file, unsigned index, struct elf_section *section);

/* The first section of that name or kind. */
bool elf_section_find(const struct elf_file *file, const char *name, struct elf_section *section);
bool elf_section_find_kind(const struct elf_file *file, enum elf_section_kind kind,
                           struct elf_section *section);

/*
 * All bytes of a section. NULL where it has none in the file, is compressed, empty, larger than
 * LIMIT_BYTES, longer than the file, or where the arena is full.
 */
const uint8_t *elf_section_load(const struct elf_file *file, const struct elf_section *section,
                                size_t limit_bytes, struct arena *arena);

#endif
