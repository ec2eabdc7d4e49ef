/*
 * Reads ELF headers. Runs in the helper (and in unit tests). Keeps the segments in the caller's
 * arena; never maps a file and never trusts a size it did not check.
 */
#include "elf_file.h"

#include <elf.h>
#include <string.h>

#include "arena.h"
#include "elf_pages.h"
#include "sys.h"

#define PAGE_BYTES   4096u
#define PHDRS_A_READ 16u
#define NOTES_MAX    64u /* in one segment or section */

int elf_source_open(const char *path)
{
    struct stat status;
    if (sys4(SYS_newfstatat, AT_FDCWD, path, &status, 0) == 0 &&
        (status.st_mode & S_IFMT) != S_IFREG)
        return -EINVAL;
    /* By now it may be a FIFO that nobody writes to. */
    return sys_open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY, 0);
}

struct elf_source elf_source_file(int fd)
{
    return (struct elf_source){.fd = fd};
}

struct elf_source elf_source_memory(const void *memory, uint64_t bytes)
{
    return (struct elf_source){.fd = -1, .memory = memory, .memory_bytes = bytes};
}

static long memory_read(const struct elf_source *source, uint64_t offset, void *buffer,
                        size_t bytes)
{
    if (offset >= source->memory_bytes)
        return 0;
    uint64_t left = source->memory_bytes - offset;
    size_t count = bytes < left ? bytes : (size_t)left;
    memcpy(buffer, source->memory + offset, count);
    return (long)count;
}

long elf_source_read(const struct elf_source *source, uint64_t offset, void *buffer, size_t bytes)
{
    if (source->fd < 0)
        return memory_read(source, offset, buffer, bytes);
    if (source->pages != NULL && bytes <= PAGE_BYTES)
        return elf_pages_read(source->pages, source->fd, offset, buffer, bytes);
    size_t count = 0;
    while (count < bytes) {
        if (offset > INT64_MAX - count) /* an offset the kernel would call EINVAL */
            break;
        long got = sys_pread(source->fd, (char *)buffer + count, bytes - count, offset + count);
        if (got == -EINTR)
            continue;
        if (got < 0)
            return got;
        if (got == 0)
            break;
        count += (size_t)got;
    }
    return (long)count;
}

bool elf_source_read_all(const struct elf_source *source, uint64_t offset, void *buffer,
                         size_t bytes)
{
    return elf_source_read(source, offset, buffer, bytes) == (long)bytes;
}

static bool header_is_ours(const Elf64_Ehdr *header)
{
    return memcmp(header->e_ident, ELFMAG, SELFMAG) == 0 &&
           header->e_ident[EI_CLASS] == ELFCLASS64 && header->e_ident[EI_DATA] == ELFDATA2LSB &&
           header->e_machine == ARCH_ELF_MACHINE &&
           (header->e_type == ET_EXEC || header->e_type == ET_DYN);
}

static bool segment_is_sound(const Elf64_Phdr *phdr)
{
    return phdr->p_filesz <= phdr->p_memsz && phdr->p_memsz <= UINT64_MAX - phdr->p_vaddr &&
           phdr->p_filesz <= UINT64_MAX - phdr->p_offset;
}

static void segment_add(struct elf_file *file, const Elf64_Phdr *phdr)
{
    file->segments[file->segment_count++] = (struct elf_segment){
        .offset = phdr->p_offset,
        .vaddr = phdr->p_vaddr,
        .file_bytes = phdr->p_filesz,
        .memory_bytes = phdr->p_memsz,
        .executable = (phdr->p_flags & PF_X) != 0,
    };
}

/* The note's position is advanced to the next one; false at the end, or where it is damaged. */
static bool note_next(const struct elf_source *source, uint64_t *offset, uint64_t end,
                      unsigned alignment, Elf64_Nhdr *note, uint64_t *descriptor)
{
    if (end - *offset < sizeof *note || !elf_source_read_all(source, *offset, note, sizeof *note))
        return false;
    uint64_t mask = alignment - 1;
    uint64_t name_bytes = (sizeof *note + (uint64_t)note->n_namesz + mask) & ~mask;
    uint64_t bytes = (name_bytes + note->n_descsz + mask) & ~mask;
    if (name_bytes + note->n_descsz > end - *offset)
        return false;
    *descriptor = *offset + name_bytes;
    *offset = bytes < end - *offset ? *offset + bytes : end;
    return true;
}

static void build_id_find(struct elf_file *file, uint64_t offset, uint64_t bytes,
                          uint64_t alignment)
{
    if (bytes > UINT64_MAX - offset)
        return;
    uint64_t end = offset + bytes;
    Elf64_Nhdr note;
    for (unsigned i = 0; i < NOTES_MAX && file->build_id_bytes == 0; i++) {
        char name[4];
        uint64_t start = offset, descriptor;
        if (!note_next(&file->source, &offset, end, alignment == 8 ? 8 : 4, &note, &descriptor))
            return;
        if (note.n_type != NT_GNU_BUILD_ID || note.n_namesz != sizeof name || note.n_descsz == 0 ||
            note.n_descsz > sizeof file->build_id ||
            !elf_source_read_all(&file->source, start + sizeof note, name, sizeof name) ||
            memcmp(name, "GNU", sizeof name) != 0)
            continue;
        if (elf_source_read_all(&file->source, descriptor, file->build_id, note.n_descsz))
            file->build_id_bytes = (uint8_t)note.n_descsz;
    }
}

/* In a separate debug file the notes' segment may be stale, their sections are not. */
static void build_id_find_in_sections(struct elf_file *file)
{
    for (unsigned i = 1; i < file->section_count && file->build_id_bytes == 0; i++) {
        Elf64_Shdr section;
        if (elf_source_read_all(&file->source, file->sections_offset + i * sizeof section, &section,
                                sizeof section) &&
            section.sh_type == SHT_NOTE)
            build_id_find(file, section.sh_offset, section.sh_size, section.sh_addralign);
    }
}

static int phdr_take(struct elf_file *file, const Elf64_Phdr *phdr)
{
    switch (phdr->p_type) {
    case PT_LOAD:
        if (!segment_is_sound(phdr))
            return -EBADMSG;
        segment_add(file, phdr);
        break;
    case PT_GNU_EH_FRAME:
        file->eh_frame_hdr_vaddr = phdr->p_vaddr;
        file->eh_frame_hdr_bytes = phdr->p_memsz;
        break;
    case PT_NOTE:
        build_id_find(file, phdr->p_offset, phdr->p_filesz, phdr->p_align);
        break;
    }
    return 0;
}

/* How many program headers from FIRST on were read into PHDRS; 0 where the table is damaged. */
static unsigned phdrs_read(const struct elf_file *file, const Elf64_Ehdr *header, unsigned first,
                           Elf64_Phdr *phdrs)
{
    unsigned count = header->e_phnum - first;
    count = count < PHDRS_A_READ ? count : PHDRS_A_READ;
    uint64_t at = (uint64_t)first * sizeof *phdrs;
    if (header->e_phoff > UINT64_MAX - at ||
        !elf_source_read_all(&file->source, header->e_phoff + at, phdrs, count * sizeof *phdrs))
        return 0;
    return count;
}

static int segments_count(const struct elf_file *file, const Elf64_Ehdr *header, unsigned *loads)
{
    Elf64_Phdr phdrs[PHDRS_A_READ];
    *loads = 0;
    for (unsigned first = 0; first < header->e_phnum; first += PHDRS_A_READ) {
        unsigned count = phdrs_read(file, header, first, phdrs);
        if (count == 0)
            return -EBADMSG;
        for (unsigned i = 0; i < count; i++)
            *loads += phdrs[i].p_type == PT_LOAD;
    }
    return *loads > 0 ? 0 : -EBADMSG;
}

static int segments_read(struct elf_file *file, const Elf64_Ehdr *header, unsigned loads)
{
    Elf64_Phdr phdrs[PHDRS_A_READ];
    for (unsigned first = 0; first < header->e_phnum; first += PHDRS_A_READ) {
        unsigned count = phdrs_read(file, header, first, phdrs);
        if (count == 0)
            return -EBADMSG;
        for (unsigned i = 0; i < count; i++) {
            /* The file may have changed since its segments were counted. */
            if (phdrs[i].p_type == PT_LOAD && file->segment_count == loads)
                return -EBADMSG;
            int error = phdr_take(file, &phdrs[i]);
            if (error != 0)
                return error;
        }
    }
    return 0;
}

static void sections_note(struct elf_file *file, const Elf64_Ehdr *header)
{
    uint64_t bytes = (uint64_t)header->e_shnum * sizeof(Elf64_Shdr);
    if (header->e_shoff == 0 || header->e_shentsize != sizeof(Elf64_Shdr) ||
        header->e_shoff > UINT64_MAX - bytes)
        return;
    file->sections_offset = header->e_shoff;
    file->section_count = header->e_shnum;
    file->section_names_index = header->e_shstrndx;
}

int elf_file_read(struct elf_file *file, struct elf_source source, struct arena *arena)
{
    Elf64_Ehdr header;
    *file = (struct elf_file){.source = source};
    long got = elf_source_read(&source, 0, &header, sizeof header);
    if (got < 0)
        return (int)got;
    if (got != sizeof header || !header_is_ours(&header))
        return -ENOEXEC;
    if (header.e_phentsize != sizeof(Elf64_Phdr))
        return -EBADMSG;
    file->fixed_address = header.e_type == ET_EXEC;
    file->entry_vaddr = header.e_entry;

    unsigned loads;
    int error = segments_count(file, &header, &loads);
    if (error != 0)
        return error;
    file->segments = arena_alloc_array(arena, loads, sizeof *file->segments);
    if (file->segments == NULL)
        return -ENOMEM;
    error = segments_read(file, &header, loads);
    if (error != 0)
        return error;
    sections_note(file, &header);
    build_id_find_in_sections(file);
    return 0;
}

static bool segment_holds_offset(const struct elf_segment *segment, uint64_t offset,
                                 bool whole_page)
{
    uint64_t slack = whole_page ? segment->offset % sys_page_bytes() : 0;
    return offset >= segment->offset - slack && offset < segment->offset + segment->file_bytes &&
           segment->vaddr >= slack;
}

bool elf_file_offset_to_vaddr(const struct elf_file *file, uint64_t offset, uint64_t *vaddr)
{
    /* Executable exactly, executable by its page, then the same for the others. */
    for (unsigned pass = 0; pass < 4; pass++) {
        for (uint32_t i = 0; i < file->segment_count; i++) {
            const struct elf_segment *segment = &file->segments[i];
            if (segment->executable == (pass < 2) &&
                segment_holds_offset(segment, offset, pass % 2 != 0)) {
                *vaddr = segment->vaddr + (offset - segment->offset);
                return true;
            }
        }
    }
    return false;
}

static const struct elf_segment *segment_at(const struct elf_file *file, uint64_t vaddr)
{
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const struct elf_segment *segment = &file->segments[i];
        if (vaddr >= segment->vaddr && vaddr - segment->vaddr < segment->memory_bytes)
            return segment;
    }
    return NULL;
}

bool elf_file_vaddr_to_offset(const struct elf_file *file, uint64_t vaddr, uint64_t *offset)
{
    const struct elf_segment *segment = segment_at(file, vaddr);
    if (segment == NULL || vaddr - segment->vaddr >= segment->file_bytes)
        return false;
    *offset = segment->offset + (vaddr - segment->vaddr);
    return true;
}

bool elf_file_is_code(const struct elf_file *file, uint64_t vaddr)
{
    const struct elf_segment *segment = segment_at(file, vaddr);
    return segment != NULL && segment->executable;
}

size_t elf_file_read_vaddr(const struct elf_file *file, uint64_t vaddr, void *buffer, size_t bytes)
{
    const struct elf_segment *segment = segment_at(file, vaddr);
    if (segment == NULL || vaddr - segment->vaddr >= segment->file_bytes)
        return 0;
    uint64_t left = segment->file_bytes - (vaddr - segment->vaddr);
    long got = elf_source_read(&file->source, segment->offset + (vaddr - segment->vaddr), buffer,
                               bytes < left ? bytes : (size_t)left);
    return got > 0 ? (size_t)got : 0;
}

bool elf_file_same_build_id(const struct elf_file *one, const struct elf_file *other)
{
    return one->build_id_bytes != 0 && one->build_id_bytes == other->build_id_bytes &&
           memcmp(one->build_id, other->build_id, one->build_id_bytes) == 0;
}
