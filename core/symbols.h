/*
 * Names for addresses from an ELF symbol table.
 *
 * A symbol covers [value, value + size) and no more: an address outside is not blamed on the
 * nearest name. A symbol without a size (hand-written assembly) covers what lies up to the next
 * symbol, the end of its section or the end of its function in the unwind table, whichever comes
 * first.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_SYMBOLS_H
#define SELFSAMPLE_CORE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

struct arena;
struct elf_file;
struct fde_ranges;

/* An address to be named. */
struct symbol_request {
    uint64_t vaddr;       /* link-time address (in the kernel: the address) */
    const char *name;     /* NULL until it is found */
    uint64_t start_vaddr; /* where the symbol begins, once the name is found */
};

enum symbols_table {
    SYMBOLS_SYMTAB,
    SYMBOLS_DYNSYM,
};

/* The first of COUNT requests, sorted by vaddr, that is not before VADDR; COUNT where there is
 * none. */
size_t symbol_requests_from(const struct symbol_request *requests, size_t count, uint64_t vaddr);

/*
 * Names those of COUNT requests, sorted by vaddr, that have no name and that a symbol of the table
 * covers. Of several symbols the one that begins last wins; of aliases the one a user knows: fewest
 * leading underscores, then global before weak before local, the shorter, the first in the
 * alphabet.
 *
 * RANGES is what the unwind table knows about the same code (NULL: nothing). Names go to NAMES, as
 * they stand in the file (mangled, versions stripped); requests in one symbol share one string.
 * SCRATCH is given back. 0; -ENOENT where there is no such table; -ENOMEM: some stay without a
 * name.
 */
int symbols_resolve(const struct elf_file *file, enum symbols_table table,
                    const struct fde_ranges *ranges, struct symbol_request *requests, size_t count,
                    struct arena *names, struct arena *scratch);

#endif
