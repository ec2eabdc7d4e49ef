/* The file format of kernel symbols. Runs in the helper. Reads with pread, never maps. */
#include "kernel_table.h"

#include <errno.h>
#include <string.h>

#include "sys.h"

#define MAGIC        "SSKSYMS1"
#define BLOCK_COUNT  256u /* entries that are read at once: 2 KiB */
#define ENTRIES_FROM sizeof(struct kernel_header)

static int all_write(int fd, const void *bytes, size_t count)
{
    const char *from = bytes;
    while (count > 0) {
        long written = sys_write(fd, from, count);
        if (written == -EINTR)
            continue;
        if (written <= 0)
            return written < 0 ? (int)written : -EIO;
        from += written;
        count -= (size_t)written;
    }
    return 0;
}

int kernel_table_write(int fd, uint64_t fingerprint, const struct kernel_content *content)
{
    struct kernel_header header = {.fingerprint = fingerprint,
                                   .base = content->base,
                                   .entry_count = content->entry_count,
                                   .names_bytes = content->names_bytes};
    memcpy(header.magic, MAGIC, sizeof header.magic);
    int error = all_write(fd, &header, sizeof header);
    if (error == 0)
        error = all_write(fd, content->entries, content->entry_count * sizeof *content->entries);
    return error != 0 ? error : all_write(fd, content->names, content->names_bytes);
}

static uint64_t names_from(const struct kernel_header *header)
{
    return ENTRIES_FROM + (uint64_t)header->entry_count * sizeof(struct kernel_entry);
}

static bool header_is_sound(const struct kernel_header *header, uint64_t file_bytes)
{
    return memcmp(header->magic, MAGIC, sizeof header->magic) == 0 && header->entry_count > 0 &&
           header->entry_count <= KERNEL_TABLE_ENTRIES_MAX && header->names_bytes > 0 &&
           header->names_bytes <= KERNEL_TABLE_NAMES_MAX &&
           file_bytes == names_from(header) + header->names_bytes;
}

int kernel_table_open(struct kernel_table *table, int fd, uint64_t fingerprint)
{
    struct stat status;
    struct kernel_header header;
    if (sys_fstat(fd, &status) != 0 ||
        sys_pread(fd, &header, sizeof header, 0) != (long)sizeof header ||
        !header_is_sound(&header, (uint64_t)status.st_size))
        return -EBADMSG;
    if (header.fingerprint != fingerprint)
        return -ESTALE;
    *table = (struct kernel_table){.fd = fd, .header = header};
    return 0;
}

void kernel_table_close(struct kernel_table *table)
{
    sys_close(table->fd);
    table->fd = -1;
}

/* COUNT entries from FIRST on; false where they cannot be read. */
static bool entries_read(const struct kernel_table *table, uint32_t first, uint32_t count,
                         struct kernel_entry *entries)
{
    size_t bytes = count * sizeof *entries;
    return sys_pread(table->fd, entries, bytes, ENTRIES_FROM + (uint64_t)first * sizeof *entries) ==
           (long)bytes;
}

/*
 * The last entry that is not behind OFFSET. In a table that is out of order it is some entry: the
 * search ends all the same.
 */
static bool entry_find(const struct kernel_table *table, uint32_t offset,
                       struct kernel_entry *entry)
{
    struct kernel_entry block[BLOCK_COUNT];
    uint32_t first = 0, count = table->header.entry_count; /* it is in there, if anywhere */
    while (count > BLOCK_COUNT) {
        uint32_t half = count / 2;
        if (!entries_read(table, first + half, 1, entry))
            return false;
        if (entry->offset <= offset) {
            first += half;
            count -= half;
        } else {
            count = half;
        }
    }
    if (!entries_read(table, first, count, block))
        return false;
    while (count > 0 && block[count - 1].offset > offset)
        count--;
    if (count > 0)
        *entry = block[count - 1];
    return count > 0;
}

static bool name_read(const struct kernel_table *table, uint32_t name,
                      struct kernel_function *function)
{
    const struct kernel_header *header = &table->header;
    if (name == 0 || name >= header->names_bytes)
        return false;
    uint32_t left = header->names_bytes - name;
    long got = sys_pread(table->fd, function->name,
                         left < sizeof function->name ? left : sizeof function->name,
                         names_from(header) + name);
    for (long i = 0; i < got; i++) {
        if (function->name[i] == '\0') {
            function->name_length = (size_t)i;
            return i > 0;
        }
    }
    return false;
}

bool kernel_table_find(const struct kernel_table *table, uint64_t address,
                       struct kernel_function *function)
{
    struct kernel_entry entry;
    uint64_t base = table->header.base;
    if (address < base || address - base > UINT32_MAX ||
        !entry_find(table, (uint32_t)(address - base), &entry))
        return false;
    function->address = base + entry.offset;
    return name_read(table, entry.name, function);
}
