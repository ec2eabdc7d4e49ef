/*
 * A table of the kernel's functions in a file: header, entries in the order of their addresses,
 * names. It is looked up with pread, so that it costs no memory, and whatever it says is checked
 * before it is used: a damaged or hostile file gives wrong names or none.
 *
 * An entry covers what lies up to the next one; an entry without a name, what is nobody's.
 *
 * Source of the format: this header; it is only for the machine and the boot that made it.
 * Thread safety: one task at a time per struct kernel_table.
 */
#ifndef SELFSAMPLE_CORE_KERNEL_TABLE_H
#define SELFSAMPLE_CORE_KERNEL_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Together 10 MB; a kernel with a hundred modules has 120,000 functions, their names are 3 MB. */
#define KERNEL_TABLE_ENTRIES_MAX    (512u * 1024)
#define KERNEL_TABLE_NAMES_MAX      (6u * 1024 * 1024)
#define KERNEL_TABLE_NAME_BYTES_MAX 256u /* of one name, its NUL included */

struct kernel_entry {
    uint32_t offset; /* address - base */
    uint32_t name;   /* where it begins among the names, NUL-terminated; 0: nobody's */
};

struct kernel_header {
    char magic[8];
    uint64_t fingerprint; /* of what the table holds for, see kernel_cache.h */
    uint64_t base;
    uint32_t entry_count;
    uint32_t names_bytes;
};

/* What a table is written from. Entries are sorted, no two of one offset; names[0] is 0. */
struct kernel_content {
    uint64_t base;
    const struct kernel_entry *entries;
    const char *names;
    uint32_t entry_count;
    uint32_t names_bytes;
};

struct kernel_table {
    int fd;
    struct kernel_header header;
};

struct kernel_function {
    uint64_t address;
    size_t name_length;
    char name[KERNEL_TABLE_NAME_BYTES_MAX];
};

/* Writes a table to the empty file FD. 0 or -errno. */
int kernel_table_write(int fd, uint64_t fingerprint, const struct kernel_content *content);

/* Takes FD for a table if its header says so, with that fingerprint. 0, -EBADMSG or -ESTALE; then
 * FD stays the caller's. */
int kernel_table_open(struct kernel_table *table, int fd, uint64_t fingerprint);
void kernel_table_close(struct kernel_table *table);

/* The function around ADDRESS; false where the table does not know one for sure. */
bool kernel_table_find(const struct kernel_table *table, uint64_t address,
                       struct kernel_function *function);

#endif
