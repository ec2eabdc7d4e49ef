/*
 * An ELF symbol table as a stream: the symbols that can name code, in the order of the file,
 * without their names. A name is read when it is asked for.
 *
 * Source of the format: System V gABI, chapter 4, "Symbol Table".
 * Thread safety: one task at a time per struct elf_symtab.
 */
#ifndef SELFSAMPLE_CORE_ELF_SYMTAB_H
#define SELFSAMPLE_CORE_ELF_SYMTAB_H

#include "elf_section.h"

/*
 * The longest name that is kept. A longer one is cut to ELF_NAME_CUT_BYTES and "[cut]", so that
 * nobody takes it for a whole one.
 */
#define ELF_NAME_BYTES     (16u * 1024)
#define ELF_NAME_CUT_BYTES 256u

/* From the least to the most preferred among symbols at one address. */
enum elf_binding {
    ELF_BINDING_LOCAL,
    ELF_BINDING_WEAK,
    ELF_BINDING_GLOBAL,
};

/* A function, or a label without a type in an executable section. */
struct elf_symbol {
    uint64_t vaddr;
    uint64_t bytes;         /* 0: not told. vaddr + bytes does not overflow */
    uint64_t section_vaddr; /* [section_vaddr, section_end): where it lies; 0, 0: not known */
    uint64_t section_end;
    uint32_t name_offset;
    enum elf_binding binding;
    bool label;
};

struct elf_symtab {
    const struct elf_file *file;
    struct elf_section symbols;
    struct elf_section names;
    struct elf_section *sections; /* all of the file */
    uint8_t *chunk;               /* part of the table */
    uint64_t next_offset;         /* in the table, of what the chunk will hold next */
    size_t chunk_bytes;
    size_t chunk_at;
    uint32_t mapping_names[2]; /* last seen names of symbols that name nothing; 0: none */
};

/*
 * Opens the table of that kind (SYMTAB or DYNSYM). 0; -ENOENT where the file has none, or none that
 * makes sense, as one of more than 256 MB; -ENOMEM. ARENA gives 64 KiB and 72 bytes a section.
 */
int elf_symtab_open(struct elf_symtab *symtab, const struct elf_file *file,
                    enum elf_section_kind kind, struct arena *arena);

/* The next symbol that can name code; false at the end or where the file cannot be read. */
bool elf_symtab_next(struct elf_symtab *symtab, struct elf_symbol *symbol);

/*
 * A symbol's name in ARENA, without the version that some linkers append ("@GLIBC_2.2.5"). NULL
 * where it is empty or cannot be read, or where the arena is full.
 */
const char *elf_symtab_name(const struct elf_symtab *symtab, uint32_t name_offset,
                            struct arena *arena);

#endif
