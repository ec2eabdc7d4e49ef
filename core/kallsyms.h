/*
 * Names for kernel addresses, from the text of /proc/kallsyms.
 *
 * Source of the format: one line "ADDRESS TYPE NAME[\t[MODULE]]" a symbol, ADDRESS hexadecimal,
 * TYPE a letter as nm(1) has it. Where kernel.kptr_restrict hides them, all addresses read as 0.
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_KALLSYMS_H
#define SELFSAMPLE_CORE_KALLSYMS_H

#include "symbols.h"

#define KALLSYMS_PATH "/proc/kallsyms"

/* No kernel function is longer: an address further behind a symbol is not blamed on it. */
#define KALLSYMS_FUNCTION_BYTES (256u * 1024)

/*
 * Names those of COUNT requests, sorted by vaddr, that have no name, with the text symbol that
 * begins last at or before them. Reads PATH once, from start to end (about 10 MB and 0.1 s, most of
 * it the kernel's time), whatever the order of its lines. Names go to NAMES, 256 bytes a request
 * and 64 KiB to SCRATCH, which is given back. 0; -ENOENT: nothing found, also where addresses are
 * hidden; -ENOMEM; or the error of open or read.
 */
int kallsyms_resolve(const char *path, struct symbol_request *requests, size_t count,
                     struct arena *names, struct arena *scratch);

#endif
