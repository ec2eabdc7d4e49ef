/*
 * Pages of files, kept: look-ups in unwind tables read many small pieces near each other, and a
 * system call for each would be most of their cost.
 *
 * A file is known by its descriptor, so pages may only be kept of files that stay open, and must be
 * forgotten when one is closed.
 *
 * Thread safety: one task at a time per cache.
 */
#ifndef SELFSAMPLE_CORE_ELF_PAGES_H
#define SELFSAMPLE_CORE_ELF_PAGES_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct elf_pages;

/* An empty cache of 512 KiB, touched as used; NULL where memory is short. */
struct elf_pages *elf_pages_make(struct arena *arena);

/* Reads up to BYTES at OFFSET of FD; fewer only at the end of the file. The count, or -errno. */
long elf_pages_read(struct elf_pages *pages, int fd, uint64_t offset, void *buffer, size_t bytes);

/* Forgets everything. */
void elf_pages_forget(struct elf_pages *pages);

#endif
