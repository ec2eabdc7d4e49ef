/*
 * The names of the kernel's functions, had without a wait at the end of a process.
 *
 * /proc/kallsyms takes some 70 ms to read. So it is read while the app runs, a part at each of the
 * helper's turns, into a table that is then shared with the user's other processes (see
 * kernel_cache.h): all but the first find it ready. A process that ends before has the rest read
 * at once.
 *
 * The table knows the kernel and its modules. What comes and goes (BPF programs, trampolines), and
 * what lies behind the last function of a module, is looked for in /proc/kallsyms itself.
 *
 * Thread safety: one task at a time per struct kernel_symbols; the helper.
 */
#ifndef SELFSAMPLE_CORE_KERNEL_SYMBOLS_H
#define SELFSAMPLE_CORE_KERNEL_SYMBOLS_H

#include "arena.h"
#include "kernel_table.h"
#include "symbols.h"

enum kernel_symbols_state {
    KERNEL_SYMBOLS_NEW,
    KERNEL_SYMBOLS_READING,
    KERNEL_SYMBOLS_READY,
    KERNEL_SYMBOLS_HIDDEN, /* the kernel does not tell addresses */
    KERNEL_SYMBOLS_FAILED, /* there is no table; kallsyms has to be asked */
};

/* Where things are; other places in tests. */
struct kernel_symbols_paths {
    const char *kallsyms;
    const char *boot_id;
    const char *modules;
    const char *cache_directory;
};

struct kernel_symbols_build;

struct kernel_symbols {
    struct kernel_symbols_paths paths;
    enum kernel_symbols_state state;
    bool shared;                        /* what is read may be left for other processes */
    struct arena arena;                 /* of the table while it is built, 15 MB at most */
    struct kernel_symbols_build *build; /* while READING */
    struct kernel_table table;          /* once READY */
};

/* Opens nothing yet. */
void kernel_symbols_init(struct kernel_symbols *symbols, const struct kernel_symbols_paths *paths);

/* Begins to read, if that has not been done, while the caller may still see the kernel's addresses;
 * from now on what is read is not shared with the user's other processes. */
void kernel_symbols_hold(struct kernel_symbols *symbols);

/* The paths of the running system. */
extern const struct kernel_symbols_paths kernel_symbols_system;

/* What a byte of text costs, about. */
#define KERNEL_SYMBOLS_NS_A_BYTE 15u

/* Gets on with the table, reading some BUDGET_BYTES of text. Does nothing once there is one, or can
 * be none. */
void kernel_symbols_step(struct kernel_symbols *symbols, size_t budget_bytes);

/*
 * Names those of COUNT requests, sorted by vaddr, that have no name; finishes the table first.
 * Names go to NAMES. SCRATCH is given back. 0; -ENOENT: some have none; -ENOMEM; or the error of
 * open or read.
 */
int kernel_symbols_resolve(struct kernel_symbols *symbols, struct symbol_request *requests,
                           size_t count, struct arena *names, struct arena *scratch);

/* Gives everything back. */
void kernel_symbols_close(struct kernel_symbols *symbols);

#endif
