/*
 * The kernel's symbols, from the text of /proc/kallsyms: read piece by piece, or searched in one
 * pass for a few addresses.
 *
 * Source of the format: one line "ADDRESS TYPE NAME[\t[OWNER]]" a symbol, ADDRESS hexadecimal, TYPE
 * a letter as nm(1) has it, OWNER a module's name, or "bpf", "__builtin__kprobes" and the like for
 * code made at run time; none for the kernel itself. The kernel's own lines come first, in the
 * order of their addresses, the others in any. Where kernel.kptr_restrict or the lack of a
 * capability hides them, all addresses read as 0.
 *
 * Reading all of it takes some 70 ms of the kernel's time (120,000 lines), 4 KiB a read; there is
 * no way to begin in the middle that is cheaper.
 *
 * Thread safety: one task at a time per struct kallsyms.
 */
#ifndef SELFSAMPLE_CORE_KALLSYMS_H
#define SELFSAMPLE_CORE_KALLSYMS_H

#include <stdbool.h>

#include "symbols.h"

#define KALLSYMS_PATH "/proc/kallsyms"

/* No kernel function is longer: an address further behind a symbol is not blamed on it. */
#define KALLSYMS_FUNCTION_BYTES (256u * 1024)

/* A longer name is cut. */
#define KALLSYMS_NAME_BYTES 240u

#define KALLSYMS_BUFFER_BYTES (16u * 1024)

/* A function; its texts stand in the reader's buffer and are not terminated. */
struct kallsyms_symbol {
    uint64_t address;
    const char *name;
    const char *owner;  /* with its brackets */
    size_t name_length; /* 1 .. KALLSYMS_NAME_BYTES */
    size_t owner_length;
};

/* A reader; some 16 KiB: not for the helper's stack. */
struct kallsyms {
    int fd;
    bool hidden;  /* the kernel hides its addresses: there is nothing to be had */
    size_t at;    /* in the buffer: the next line */
    size_t bytes; /* in the buffer */
    char buffer[KALLSYMS_BUFFER_BYTES];
};

/* Opens PATH. 0 or -errno. */
int kallsyms_open(struct kallsyms *kallsyms, const char *path);
void kallsyms_close(struct kallsyms *kallsyms);

/* Reads on, once. How many bytes came; 0 at the end, also once addresses are found hidden; -errno.
 */
long kallsyms_fill(struct kallsyms *kallsyms);

/*
 * The next function among the lines that kallsyms_fill brought; false where it has to be called
 * again. The padding in front of functions, which has symbols of its own (__pfx_NAME) but is never
 * run, is left out.
 */
bool kallsyms_next(struct kallsyms *kallsyms, struct kallsyms_symbol *symbol);

/* Of two names for one address, is the first better known? The one with fewer leading underscores
 * is, then the shorter. Never for equal ones. */
bool kallsyms_name_preferred(const char *one, size_t one_length, const char *other,
                             size_t other_length);

/*
 * Names those of COUNT requests, sorted by vaddr, that have no name, with the function that begins
 * last at or before them. Reads PATH once, from start to end, whatever the order of its lines.
 * Names go to NAMES, 256 bytes a request and 16 KiB to SCRATCH, which is given back. 0; -ENOENT:
 * nothing found, also where addresses are hidden; -ENOMEM; or the error of open or read.
 */
int kallsyms_resolve(const char *path, struct symbol_request *requests, size_t count,
                     struct arena *names, struct arena *scratch);

#endif
