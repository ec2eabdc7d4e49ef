/* Streams symbol tables. Runs in the helper; reads 64 KiB at a time. */
#include "elf_symtab.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "arch.h"
#include "arena.h"

#define CHUNK_SYMBOLS   2730u                /* 64 KiB, nearly */
#define TABLE_BYTES_MAX (256u * 1024 * 1024) /* eleven million symbols; more are nobody's */
#define READ_BYTES      256u /* of a name at a time; nearly all end within the first */
#define CUT_MARK        "[cut]"

static int sections_read(struct elf_symtab *symtab, struct arena *arena)
{
    const struct elf_file *file = symtab->file;
    symtab->sections = arena_alloc_array(arena, file->section_count, sizeof *symtab->sections);
    if (symtab->sections == NULL)
        return -ENOMEM;
    for (unsigned i = 0; i < file->section_count; i++) {
        if (!elf_section_read(file, i, &symtab->sections[i]))
            symtab->sections[i] = (struct elf_section){0};
    }
    return 0;
}

int elf_symtab_open(struct elf_symtab *symtab, const struct elf_file *file,
                    enum elf_section_kind kind, struct arena *arena)
{
    *symtab = (struct elf_symtab){.file = file};
    if (!elf_section_find_kind(file, kind, &symtab->symbols) || !symtab->symbols.in_file ||
        symtab->symbols.compressed || symtab->symbols.bytes > TABLE_BYTES_MAX ||
        !elf_section_read(file, symtab->symbols.link, &symtab->names) || !symtab->names.in_file ||
        symtab->names.compressed)
        return -ENOENT;
    symtab->chunk = arena_alloc_array(arena, CHUNK_SYMBOLS, sizeof(Elf64_Sym));
    return symtab->chunk != NULL ? sections_read(symtab, arena) : -ENOMEM;
}

/* Gets the next symbols of the table into the chunk; false where there is none. */
static bool chunk_fill(struct elf_symtab *symtab)
{
    uint64_t left = symtab->symbols.bytes - symtab->next_offset;
    size_t bytes = CHUNK_SYMBOLS * sizeof(Elf64_Sym);
    long got = elf_source_read(&symtab->file->source, symtab->symbols.offset + symtab->next_offset,
                               symtab->chunk, left < bytes ? (size_t)left : bytes);
    symtab->chunk_at = 0;
    symtab->chunk_bytes = got > 0 ? (size_t)got - (size_t)got % sizeof(Elf64_Sym) : 0;
    symtab->next_offset += symtab->chunk_bytes;
    return symtab->chunk_bytes > 0;
}

static enum elf_binding binding_of(const Elf64_Sym *raw)
{
    switch (ELF64_ST_BIND(raw->st_info)) {
    case STB_LOCAL:
        return ELF_BINDING_LOCAL;
    case STB_WEAK:
        return ELF_BINDING_WEAK;
    default: /* GLOBAL, GNU_UNIQUE */
        return ELF_BINDING_GLOBAL;
    }
}

/* Symbols without a type that mark where code ("$x") and data in it ("$d") begin name nothing. (ELF
 * for the Arm 64-bit architecture, "Mapping symbols".) Most share two names. */
static bool is_mapping_symbol(struct elf_symtab *symtab, const Elf64_Sym *raw)
{
    char name[3];
    if (!ARCH_HAS_MAPPING_SYMBOLS || ELF64_ST_TYPE(raw->st_info) != STT_NOTYPE ||
        ELF64_ST_BIND(raw->st_info) != STB_LOCAL)
        return false;
    if (raw->st_name == symtab->mapping_names[0] || raw->st_name == symtab->mapping_names[1])
        return true;
    if (!elf_source_read_all(&symtab->file->source, symtab->names.offset + raw->st_name, name,
                             sizeof name) ||
        name[0] != '$' || (name[1] != 'x' && name[1] != 'd') || (name[2] != '\0' && name[2] != '.'))
        return false;
    symtab->mapping_names[name[1] == 'd'] = raw->st_name;
    return true;
}

/* Does the symbol name code? Fills in where it lies. */
static bool symbol_take(struct elf_symtab *symtab, const Elf64_Sym *raw, struct elf_symbol *symbol)
{
    unsigned type = ELF64_ST_TYPE(raw->st_info);
    if (raw->st_shndx == SHN_UNDEF || raw->st_name == 0 ||
        (type != STT_FUNC && type != STT_GNU_IFUNC && type != STT_NOTYPE) ||
        is_mapping_symbol(symtab, raw))
        return false;
    *symbol = (struct elf_symbol){
        .vaddr = raw->st_value,
        .bytes = raw->st_size <= UINT64_MAX - raw->st_value ? raw->st_size : 0,
        .name_offset = raw->st_name,
        .binding = binding_of(raw),
        .label = type == STT_NOTYPE,
    };
    if (raw->st_shndx >= symtab->file->section_count)
        return !symbol->label && raw->st_shndx == SHN_XINDEX;
    const struct elf_section *section = &symtab->sections[raw->st_shndx];
    symbol->section_vaddr = section->vaddr;
    symbol->section_end = section->vaddr + section->bytes;
    return section->executable && raw->st_value >= section->vaddr &&
           raw->st_value < symbol->section_end;
}

bool elf_symtab_next(struct elf_symtab *symtab, struct elf_symbol *symbol)
{
    for (;;) {
        Elf64_Sym raw;
        if (symtab->chunk_at == symtab->chunk_bytes && !chunk_fill(symtab))
            return false;
        memcpy(&raw, symtab->chunk + symtab->chunk_at, sizeof raw);
        symtab->chunk_at += sizeof raw;
        if (symbol_take(symtab, &raw, symbol))
            return true;
    }
}

/* Bytes of a name before its NUL; ELF_NAME_BYTES + 1 for a longer one, 0 where it has no end. */
static size_t name_length(const struct elf_symtab *symtab, uint32_t name_offset)
{
    char buffer[READ_BYTES];
    for (size_t length = 0; length <= ELF_NAME_BYTES; length += sizeof buffer) {
        if (length >= symtab->names.bytes - name_offset)
            return 0;
        uint64_t left = symtab->names.bytes - name_offset - length;
        long got =
            elf_source_read(&symtab->file->source, symtab->names.offset + name_offset + length,
                            buffer, left < sizeof buffer ? (size_t)left : sizeof buffer);
        for (long i = 0; i < got; i++) {
            if (buffer[i] == '\0')
                return length + (size_t)i;
        }
    }
    return ELF_NAME_BYTES + 1;
}

static void version_strip(char *name)
{
    for (size_t i = 1; name[0] != '\0' && name[i] != '\0'; i++) {
        if (name[i] == '@') {
            name[i] = '\0';
            break;
        }
    }
}

const char *elf_symtab_name(const struct elf_symtab *symtab, uint32_t name_offset,
                            struct arena *arena)
{
    if (name_offset >= symtab->names.bytes)
        return NULL;
    size_t length = name_length(symtab, name_offset);
    bool cut = length > ELF_NAME_BYTES;
    length = cut ? ELF_NAME_CUT_BYTES : length;
    char *name = length > 0 ? arena_alloc(arena, length + sizeof CUT_MARK) : NULL;
    if (name == NULL || !elf_source_read_all(&symtab->file->source,
                                             symtab->names.offset + name_offset, name, length))
        return NULL;
    if (cut)
        memcpy(name + length, CUT_MARK, sizeof CUT_MARK);
    version_strip(name);
    return name;
}
