/*
 * Symbol names as their authors wrote them: C++ (Itanium ABI), Rust (legacy and v0, without the
 * hash) and D. The demanglers are libiberty's; they are kept from libc and from the app's malloc,
 * see scripts/demangler.mk.
 *
 * A name is demangled as a whole or left as it is, never shown by half: a mangled one of more than
 * DEMANGLE_INPUT_BYTES, one whose text would be longer than DEMANGLE_OUTPUT_BYTES, or one that the
 * demangler needs too much memory for stays mangled.
 *
 * Thread safety: one task at a time. The caller's stack must have DEMANGLE_STACK_BYTES left.
 */
#ifndef SELFSAMPLE_CORE_DEMANGLE_H
#define SELFSAMPLE_CORE_DEMANGLE_H

#include <stddef.h>

struct arena;

#define DEMANGLE_INPUT_BYTES  4096u
#define DEMANGLE_OUTPUT_BYTES (16u * 1024)
#define DEMANGLE_STACK_BYTES  (4u * 1024 * 1024)

/*
 * The text to show for a symbol's name: demangled, and fit to be a frame of a folded line, with ':'
 * for ';' and '_' for control characters. It is MANGLED itself or a new string in NAMES; SCRATCH is
 * given back. Where NAMES is full, a name that is not fit as it is becomes "[no memory for this
 * name]".
 */
const char *demangle(const char *mangled, struct arena *names, struct arena *scratch);

#endif
