/*
 * The names of code made at run time, as JIT compilers write them for perf: /tmp/perf-PID.map, a
 * line `START SIZE NAME` (hexadecimal) for each piece of code, appended as it is made.
 *
 * PID is the process's own number of itself, that of its innermost pid namespace. The file is first
 * looked for when a sample lies in such code, and from then on read on from where it ended before.
 * Addresses are used again: of several lines for one the youngest counts that was there at the time
 * of the sample. When that was is not in the file; it is known to the time between two looks, and
 * to its last change.
 *
 * The file is in a directory where all may write: it must be a regular file, no link, and belong to
 * root or to the user whom the helper acts as. Nothing in it is believed, and all is limited.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_PERF_MAP_H
#define SELFSAMPLE_CORE_PERF_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "code_index.h"
#include "text.h"

#define PERF_MAP_PATH_BYTES  64u
#define PERF_MAP_NAME_BYTES  1024u              /* longer names are cut */
#define PERF_MAP_FILE_BYTES  (512ull << 20)     /* what is read, all files together */
#define PERF_MAP_ARENA_BYTES ((size_t)96 << 20) /* what is kept */
#define PERF_MAP_TAIL_BYTES  64u
#define PERF_MAP_NS_A_BYTE   8u /* what reading costs, about */

struct perf_map {
    struct arena arena;
    struct code_index code;
    struct sequence names; /* of const char *, of the pieces that were sampled */
    char path[PERF_MAP_PATH_BYTES];
    char *buffer;
    bool wanted;         /* code was sampled that only this file can name */
    const char *refusal; /* why it is not read (any more); NULL: it is */
    int fd;              /* -1: there is no file yet, or none that may be read */
    uint64_t device, inode;
    uint64_t offset;                /* read up to here */
    uint64_t read_bytes;            /* in all */
    char tail[PERF_MAP_TAIL_BYTES]; /* what was read last: stands there still? */
    uint32_t tail_bytes;
    uint64_t files;    /* counts files, and beginnings of one */
    bool in_long_line; /* of which the rest is to be passed over */
    uint64_t ended_ns; /* when the end of the file was last seen (CLOCK_MONOTONIC) */
    uint64_t changes;  /* counts looks that found something: what was kept of names is void */
};

/* The map of process PID in DIRECTORY. Opens nothing yet. */
void perf_map_init(struct perf_map *map, const char *directory, int pid);

/* Reads what is new in the file, if it is wanted, up to some BUDGET_BYTES. Returns whether there is
 * more. */
bool perf_map_look(struct perf_map *map, uint64_t budget_bytes);

/*
 * The piece of code that was at ADDRESS at NOW_NS (CLOCK_MONOTONIC), or, if there was none yet, the
 * first that came later; CODE_NONE: none. Makes the file wanted. *SETTLED as in code_index.h.
 */
uint32_t perf_map_find(struct perf_map *map, uint64_t address, uint64_t now_ns, bool *settled);

/* Appends the name of a piece, fit for a folded line. */
void perf_map_put_name(const struct perf_map *map, uint32_t piece, struct text *text);

/* Closes the file and gives the memory back. */
void perf_map_close(struct perf_map *map);

#endif
