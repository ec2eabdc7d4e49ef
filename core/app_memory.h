/*
 * Reading the app's memory although it may be unmapped, or its file truncated, at any moment.
 *
 * The helper shares the address space, but a load could fault; and while libunwind holds its lock
 * it blocks all signals, so a handler could not catch it. process_vm_readv(2) on ourselves has the
 * kernel do the copy and say EFAULT instead. (It needs no permission: the memory is our own.) Where
 * the call itself is refused the memory is read as a file of /proc. Whole pages are kept: a system
 * call for each word would take most of the time.
 *
 * Thread safety: one task at a time per cache.
 */
#ifndef SELFSAMPLE_CORE_APP_MEMORY_H
#define SELFSAMPLE_CORE_APP_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arena.h"

#define APP_MEMORY_PAGES 512u /* kept: 2 MiB, touched as used */

struct app_memory {
    struct app_memory_page
        *pages; /* APP_MEMORY_PAGES, chosen by address; NULL: none could be had */
    int pid;    /* our own, for process_vm_readv */
    int fd;     /* of the memory, where that is refused; -1: it is not */
};

/* Copies BYTES at ADDRESS to BUFFER. 0, or -EFAULT where not all of it can be read. */
int app_memory_copy(const struct app_memory *memory, uint64_t address, void *buffer, size_t bytes);

/* The same through kept pages: for code and tables, which do not change while they are mapped. */
int app_memory_read(struct app_memory *memory, uint64_t address, void *buffer, size_t bytes);

/* The same for what may change: only pages count that were read at TIME_NS (CLOCK_MONOTONIC) or
 * later. */
int app_memory_read_since(struct app_memory *memory, uint64_t time_ns, uint64_t address,
                          void *buffer, size_t bytes);

/* Has the pages from ADDRESS on mapped, BYTES at most, up to the first that can't be: private ones
 * that nobody has written to become the kernel's page of zeros, and take no memory. */
void app_memory_bring_in(const struct app_memory *memory, uint64_t address, size_t bytes);

/* Forgets the kept pages: other things may be mapped there now. */
void app_memory_forget(struct app_memory *memory);

/* Prepares the cache, in ARENA. Where memory is short, it works without kept pages. */
void app_memory_init(struct app_memory *memory, struct arena *arena);

/* Closes what is open; its pages go with the arena. */
void app_memory_close(struct app_memory *memory);

#endif
