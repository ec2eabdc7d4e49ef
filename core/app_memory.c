/* Fault-free reads of the app's memory with kept pages. Runs in the helper; never touches it
 * directly. */
#include "app_memory.h"

#include <sys/uio.h>

#include "sys.h"

#define PAGE_BYTES 4096u

struct app_memory_page {
    uint64_t address; /* of the page; 0: nothing is kept here */
    uint64_t read_ns; /* when, or a bit before */
    uint8_t bytes[PAGE_BYTES];
};

static long call_copy(const struct app_memory *memory, uint64_t address, void *buffer, size_t bytes)
{
    struct iovec to = {buffer, bytes};
    struct iovec from = {(void *)(uintptr_t)address, bytes};
    return sys6(SYS_process_vm_readv, memory->pid, &to, 1, &from, 1, 0);
}

void app_memory_init(struct app_memory *memory, struct arena *arena)
{
    uint64_t word = 0, copy;
    memory->pages = arena_alloc_array(arena, APP_MEMORY_PAGES, sizeof *memory->pages);
    memory->pid = (int)sys0(SYS_getpid);
    memory->fd = -1;
    if (call_copy(memory, (uint64_t)(uintptr_t)&word, &copy, sizeof copy) != sizeof copy)
        memory->fd = sys_open("/proc/thread-self/mem", O_RDONLY, 0);
}

void app_memory_close(struct app_memory *memory)
{
    if (memory->fd >= 0)
        sys_close(memory->fd);
    memory->fd = -1;
}

void app_memory_forget(struct app_memory *memory)
{
    for (size_t i = 0; memory->pages != NULL && i < APP_MEMORY_PAGES; i++)
        memory->pages[i].address = 0;
}

int app_memory_copy(const struct app_memory *memory, uint64_t address, void *buffer, size_t bytes)
{
    long got = memory->fd >= 0 ? sys_pread(memory->fd, buffer, bytes, address)
                               : call_copy(memory, address, buffer, bytes);
    return got == (long)bytes ? 0 : -EFAULT;
}

void app_memory_bring_in(const struct app_memory *memory, uint64_t address, size_t bytes)
{
    uint64_t end = address + bytes;
    uint8_t byte;
    for (uint64_t page = address & ~(uint64_t)(PAGE_BYTES - 1); page < end; page += PAGE_BYTES)
        if (app_memory_copy(memory, page, &byte, 1) != 0)
            return;
}

/* The kept page at ADDRESS, read now if it was not kept since TIME_NS; NULL where it can't be read.
 */
static const struct app_memory_page *page_at(struct app_memory *memory, uint64_t time_ns,
                                             uint64_t address)
{
    /* The code and the tables of one module lie at round distances: mix, or they evict each other.
     */
    uint64_t number = address / PAGE_BYTES;
    struct app_memory_page *page = &memory->pages[(number ^ number >> 9) % APP_MEMORY_PAGES];
    if (page->address == address && address != 0 && page->read_ns >= time_ns)
        return page;
    page->address = 0;
    page->read_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (app_memory_copy(memory, address, page->bytes, PAGE_BYTES) != 0)
        return NULL;
    page->address = address;
    return page;
}

int app_memory_read_since(struct app_memory *memory, uint64_t time_ns, uint64_t address,
                          void *buffer, size_t bytes)
{
    if (memory->pages == NULL)
        return app_memory_copy(memory, address, buffer, bytes);
    for (uint8_t *to = buffer; bytes > 0;) {
        size_t offset = address % PAGE_BYTES;
        size_t part = PAGE_BYTES - offset < bytes ? PAGE_BYTES - offset : bytes;
        const struct app_memory_page *page = page_at(memory, time_ns, address - offset);
        if (page == NULL)
            return -EFAULT;
        __builtin_memcpy(to, page->bytes + offset, part);
        to += part;
        address += part;
        bytes -= part;
    }
    return 0;
}

int app_memory_read(struct app_memory *memory, uint64_t address, void *buffer, size_t bytes)
{
    return app_memory_read_since(memory, 0, address, buffer, bytes);
}
