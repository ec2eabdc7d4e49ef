/* Packed debug information out of any bytes, as a section of an ELF file made around them.
 * libFuzzer's entry. */
#include <elf.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "debugdata.h"
#include "elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

struct wrapper {
    Elf64_Ehdr header;
    Elf64_Phdr load;
    Elf64_Shdr sections[3]; /* none, the names, the data */
    char names[32];
};

static const struct wrapper empty = {
    .header = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT},
               .e_type = ET_DYN,
               .e_machine = EM_X86_64,
               .e_version = EV_CURRENT,
               .e_phoff = offsetof(struct wrapper, load),
               .e_shoff = offsetof(struct wrapper, sections),
               .e_ehsize = sizeof(Elf64_Ehdr),
               .e_phentsize = sizeof(Elf64_Phdr),
               .e_phnum = 1,
               .e_shentsize = sizeof(Elf64_Shdr),
               .e_shnum = 3,
               .e_shstrndx = 1},
    .load = {.p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_filesz = 64, .p_memsz = 64},
    .sections = {{0},
                 {.sh_name = 16,
                  .sh_type = SHT_STRTAB,
                  .sh_offset = offsetof(struct wrapper, names),
                  .sh_size = 32},
                 {.sh_name = 1, .sh_type = SHT_PROGBITS, .sh_offset = sizeof(struct wrapper)}},
    .names = "\0.gnu_debugdata\0.shstrtab",
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena arena;
    struct elf_file file, inner;
    uint8_t *image = malloc(sizeof empty + bytes);
    if (image == NULL)
        return 0;
    struct wrapper *wrapper = (void *)image;
    *wrapper = empty;
    wrapper->sections[2].sh_size = bytes;
    memcpy(image + sizeof empty, data, bytes);
    arena_init(&arena, 256u << 20);
    if (elf_file_read(&file, elf_source_memory(image, sizeof empty + bytes), &arena) != 0)
        abort();
    debugdata_open(&inner, &file, &arena);
    arena_destroy(&arena);
    free(image);
    return 0;
}
