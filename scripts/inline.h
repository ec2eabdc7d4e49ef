/*
 * The parts of `selfsample-inline`, which puts the functions that compilers inlined into finished
 * profiles. A program of its own, so that libdw, and whatever damaged debug information does to it,
 * is neither in the profiled programs nor in the `selfsample` command. One thread, libc.
 *
 *     places (what the profile's frames are) + debug information -> the folded file, written anew
 */
#ifndef SELFSAMPLE_SCRIPTS_INLINE_H
#define SELFSAMPLE_SCRIPTS_INLINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "arena.h"
#include "sequence.h"

/* One line on stderr behind "selfsample: ". */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- inline_places.c: the file that core/places.h describes ---- */

enum { NOWHERE = UINT32_MAX }; /* no module, no parent */

struct place_module {
    const char *path;     /* "": none */
    const char *build_id; /* hexadecimal; "-": none */
    uint64_t inode;
};

struct place_frame {
    uint32_t module;
    uint64_t address;
    const char *name;
};

struct place_node {
    uint32_t parent; /* always of a smaller index */
    uint32_t frame;
    uint64_t weight_ns;
    int64_t owed_ns; /* weight that earlier files of a series left out, or (< 0) were ahead of */
};

struct place_list {
    struct sequence modules, frames, nodes; /* of the structs above, all indices valid */
    uint64_t folded_bytes, unit_ns;
};

/* Reads FILE, whose text goes to ARENA. NULL, or what is wrong with it. */
const char *places_read(struct place_list *list, FILE *file, struct arena *arena);

/* ---- inline_debug.c: what debug information tells. It and inline_name.c know libdw ---- */

enum { INLINED_MAX = 64 }; /* functions at one address; those inside are left out */

struct debug_module;

/*
 * The debug information of the file at PATH: its own, or that of a separate file by build id or
 * debug link. NULL where there is none, or where the file is not the one that was profiled: its
 * build id is another, or without one its inode. Kept until the end: asking again costs nothing.
 */
struct debug_module *debug_module_get(const struct place_module *module);

/* The functions inlined at ADDRESS, outermost first, the one they are in not among them. Returns
 * how many, INLINED_MAX at most. Their names are fit for a folded file and stay until the end. */
size_t debug_inlined(struct debug_module *module, uint64_t address, const char **names);

/* ---- inline_name.c: what a function is called ---- */

/* The name of an inlined function as the symbol of one that is not inlined would have it. DIE is a
 * Dwarf_Die. It stays until the end. */
const char *inlined_name(void *die);

/* ---- inline_expand.c: one profile ---- */

struct expansion {
    size_t modules, modules_with_debug; /* of the files that frames are in */
};

/* Writes the folded file at PATH anew, with inlined functions, and removes the file of places.
 * False after a line that says why not; then both are as they were. */
bool profile_expand(const char *path, struct expansion *expansion);

#endif
