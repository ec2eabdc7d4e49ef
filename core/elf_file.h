/*
 * An ELF file's headers: where its bytes come from, its loadable segments, its unwind table, its
 * build id. Sections are read on demand, see elf_section.h.
 *
 * Files are read with pread, never mapped: a file that shrinks under a mapping kills its reader.
 * Whatever the file says is checked before it is used as an offset, a size or a count.
 *
 * Source of the format: System V gABI, chapters 4 and 5; LSB 5.0 section 10.6 (PT_GNU_EH_FRAME).
 * Thread safety: nothing here keeps state; an elf_file may be read by several tasks.
 */
#ifndef SELFSAMPLE_CORE_ELF_FILE_H
#define SELFSAMPLE_CORE_ELF_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct arena;
struct elf_pages;

/* The longest build id that is kept (linkers make 8, 16 or 20 bytes); a longer one counts as none.
 */
#define ELF_BUILD_ID_BYTES 32

/* Where the bytes of an ELF image come from. It owns neither the descriptor nor the memory. */
struct elf_source {
    int fd;                /* -1: the bytes are in memory */
    const uint8_t *memory; /* the vDSO, or an unpacked file */
    uint64_t memory_bytes;
    struct elf_pages *pages; /* of a file: through kept pages; NULL: without */
};

/*
 * Opens the file at PATH for reading, without waiting for anything. The descriptor, which the
 * caller closes, or -errno. What is known to be no regular file is not opened, since that may have
 * effects: a device does something, who waits for a reader of a FIFO goes on.
 */
int elf_source_open(const char *path);

struct elf_source elf_source_file(int fd);
struct elf_source elf_source_memory(const void *memory, uint64_t bytes);

/* Reads up to BYTES at OFFSET; fewer only at the end. The count, or -errno. */
long elf_source_read(const struct elf_source *source, uint64_t offset, void *buffer, size_t bytes);

/* As elf_source_read, but all or nothing: false where the source ends before. */
bool elf_source_read_all(const struct elf_source *source, uint64_t offset, void *buffer,
                         size_t bytes);

/* A PT_LOAD segment. offset + file_bytes and vaddr + memory_bytes do not overflow. */
struct elf_segment {
    uint64_t offset; /* in the file */
    uint64_t vaddr;  /* as linked; the load bias comes on top */
    uint64_t file_bytes;
    uint64_t memory_bytes; /* >= file_bytes */
    bool executable;
};

struct elf_file {
    struct elf_source source;
    struct elf_segment *segments; /* in the order of the file, in the arena given to the reader */
    uint64_t eh_frame_hdr_vaddr;
    uint64_t eh_frame_hdr_bytes; /* 0: there is none */
    uint64_t entry_vaddr;
    uint64_t sections_offset;
    uint32_t segment_count;
    uint16_t section_count; /* 0: the file has no section headers, or damaged ones */
    uint16_t section_names_index;
    bool fixed_address; /* ET_EXEC: the load bias is 0 */
    uint8_t build_id_bytes;
    uint8_t build_id[ELF_BUILD_ID_BYTES];
};

/*
 * Reads the headers. 0; -ENOEXEC: not a 64-bit ELF program or library of this machine; -EBADMSG:
 * damaged; -ENOMEM; or the error of the read. The arena keeps the segments, 40 bytes each.
 */
int elf_file_read(struct elf_file *file, struct elf_source source, struct arena *arena);

/*
 * The link-time address of a file offset that was found in an *executable* mapping. Kernels map
 * whole pages, so the page in which a segment begins counts as part of it, and an executable
 * segment is preferred where two share that page.
 */
bool elf_file_offset_to_vaddr(const struct elf_file *file, uint64_t offset, uint64_t *vaddr);

/* The file offset of a link-time address; false where no bytes of the file lie there. */
bool elf_file_vaddr_to_offset(const struct elf_file *file, uint64_t vaddr, uint64_t *offset);

/* Is VADDR inside an executable segment? */
bool elf_file_is_code(const struct elf_file *file, uint64_t vaddr);

/* Reads up to BYTES at a link-time address, not beyond its segment. The count (0: nothing there).
 */
size_t elf_file_read_vaddr(const struct elf_file *file, uint64_t vaddr, void *buffer, size_t bytes);

/* Have both a build id, and the same? */
bool elf_file_same_build_id(const struct elf_file *one, const struct elf_file *other);

#endif
