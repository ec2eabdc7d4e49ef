/*
 * Names for addresses in a procedure linkage table: the stubs through which a module calls what
 * lies in others. They have no symbols; a stub jumps through a word of the global offset table, and
 * the relocation that fills it in tells what for.
 *
 * Source of the format: x86-64 psABI, 5.2 "Procedure Linkage Table"; what GNU ld, gold, lld and
 * mold make of it. Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_PLT_NAMES_H
#define SELFSAMPLE_CORE_PLT_NAMES_H

#include "symbols.h"

/*
 * Names those of COUNT requests, sorted by vaddr, that have no name and lie in a stub of .plt,
 * .plt.sec or .plt.got: NAME@plt, NAME being demangled and fit to be shown. Names go to NAMES;
 * SCRATCH is given back. A file without section headers gives none. 0; -ENOENT: there was nothing
 * to name; -ENOMEM: some stay without a name.
 */
int plt_names_resolve(const struct elf_file *file, struct symbol_request *requests, size_t count,
                      struct arena *names, struct arena *scratch);

#endif
