/*
 * Names for the sampled addresses of one module, from everything its file offers.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_MODULE_NAMES_H
#define SELFSAMPLE_CORE_MODULE_NAMES_H

#include "symbols.h"

/*
 * Names COUNT requests, sorted by vaddr and all without a name, for the module FILE that was found
 * at PATH (NULL: it has none, as the vDSO). Asked in this order: the separate debug file's .symtab,
 * the file's own, .gnu_debugdata, .dynsym, and for PLT stubs the relocations. Names are demangled
 * and fit to be frames of a folded line (see demangle.h, also for the stack this needs); they go to
 * NAMES. SCRATCH is given back.
 *
 * Every request's start_vaddr is filled in. Where name stays NULL it is the start of the function
 * in the unwind table, so that the caller can show lib.so+0xSTART as one frame for all of the
 * function; without unwind information, the address itself.
 */
void module_names_resolve(const struct elf_file *file, const char *path,
                          struct symbol_request *requests, size_t count, struct arena *names,
                          struct arena *scratch);

#endif
