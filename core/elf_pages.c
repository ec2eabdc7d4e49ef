/* Keeps pages of files. Runs in the helper; reads by pread, never maps a file. */
#include "elf_pages.h"

#include <errno.h>
#include <string.h>

#include "arena.h"
#include "sys.h"

#define PAGE_BYTES  4096u
#define PAGES       128u
#define OFFSETS_MAX ((uint64_t)INT64_MAX - PAGE_BYTES) /* beyond, the kernel says EINVAL */

struct page {
    uint64_t offset; /* of its first byte in the file */
    int fd;
    uint32_t bytes; /* that the file has of it; 0: nothing is kept here */
    uint8_t content[PAGE_BYTES];
};

struct elf_pages {
    struct page pages[PAGES]; /* chosen by file and offset */
};

struct elf_pages *elf_pages_make(struct arena *arena)
{
    return arena_alloc(arena, sizeof(struct elf_pages));
}

void elf_pages_forget(struct elf_pages *pages)
{
    for (uint32_t i = 0; i < PAGES; i++)
        pages->pages[i].bytes = 0;
}

/* Fills PAGE. How many bytes the file has there, or -errno. */
static long page_read(struct page *page, int fd, uint64_t offset)
{
    long got;
    uint32_t count = 0;
    page->bytes = 0;
    do {
        got = sys_pread(fd, page->content + count, PAGE_BYTES - count, offset + count);
        count += got > 0 ? (uint32_t)got : 0;
    } while ((got > 0 && count < PAGE_BYTES) || got == -EINTR);
    if (got < 0)
        return got;
    page->fd = fd;
    page->offset = offset;
    page->bytes = count;
    return (long)count;
}

long elf_pages_read(struct elf_pages *pages, int fd, uint64_t offset, void *buffer, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        uint64_t at = offset + done;
        if (at < offset || at > OFFSETS_MAX)
            break;
        uint64_t number = at / PAGE_BYTES;
        size_t inside = at % PAGE_BYTES;
        struct page *page = &pages->pages[(number ^ (uint64_t)fd * 37) % PAGES];
        if (page->bytes == 0 || page->fd != fd || page->offset != at - inside) {
            long got = page_read(page, fd, at - inside);
            if (got < 0)
                return got;
        }
        size_t part = page->bytes > inside ? page->bytes - inside : 0;
        part = part < bytes - done ? part : bytes - done;
        if (part == 0)
            break;
        memcpy((uint8_t *)buffer + done, page->content + inside, part);
        done += part;
    }
    return (long)done;
}
