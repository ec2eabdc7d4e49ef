/*
 * The relocations of an ELF file that fill in addresses of functions, as a stream: which word of
 * the loaded module will hold the address of which symbol.
 *
 * Source of the format: System V gABI, chapter 4, "Relocation"; x86-64 psABI, table 4.9.
 * Thread safety: one task at a time per struct elf_relocs.
 */
#ifndef SELFSAMPLE_CORE_ELF_RELOC_H
#define SELFSAMPLE_CORE_ELF_RELOC_H

#include "elf_symtab.h"

#define ELF_RELOCS_BUFFER_BYTES 4080u /* of 24 bytes each */

struct elf_reloc {
    uint64_t slot_vaddr;     /* the word that is filled in */
    uint64_t resolver_vaddr; /* the function that says with what (IRELATIVE); 0: SYMBOL tells */
    uint32_t symbol;         /* index into .dynsym; 0: none */
};

struct elf_relocs {
    const struct elf_file *file;
    struct elf_section section;
    uint64_t next_offset; /* in the section, of what the buffer will hold next */
    size_t buffered;
    size_t at;
    uint8_t buffer[ELF_RELOCS_BUFFER_BYTES];
};

/* Opens the section of that name. 0, or -ENOENT where there is none, or none that makes
 * sense. */
int elf_relocs_open(struct elf_relocs *relocs, const struct elf_file *file, const char *section);

/* The next one for a function; false at the end or where the file cannot be read. */
bool elf_relocs_next(struct elf_relocs *relocs, struct elf_reloc *reloc);

/* The name of symbol INDEX of an open table, in ARENA; NULL where it has none. */
const char *elf_reloc_symbol_name(const struct elf_symtab *dynsym, uint32_t index,
                                  struct arena *arena);

#endif
