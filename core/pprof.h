/*
 * Writes a pprof file, piece by piece: a Profile of core/pprof.proto, gzip'd, which `go tool
 * pprof`, Pyroscope, Parca, Grafana and speedscope read. Strings, functions and locations are
 * numbered by the caller, and may come in any order, also after what refers to them. Memory does
 * not grow with the file: of the pieces nothing is kept.
 *
 * Each sample has two values: samples/count, and cpu/nanoseconds.
 *
 * Thread safety: one task at a time per struct pprof.
 */
#ifndef SELFSAMPLE_CORE_PPROF_H
#define SELFSAMPLE_CORE_PPROF_H

#include <stddef.h>
#include <stdint.h>

#include "gzip.h"

/* Of the whole file. */
struct pprof_facts {
    uint64_t began_ns; /* since 1970; 0: not known */
    uint64_t duration_ns;
    uint64_t period_ns; /* of CPU time, between two samples */
    const char *comment;
};

struct pprof {
    struct gzip *gzip;
    struct arena *arena;
    uint64_t strings; /* how many are in the file */
    uint64_t bytes;   /* written, before they are compressed */
};

struct pprof_mapping {
    uint64_t id; /* not 0 */
    uint64_t start, limit, file_offset;
    const char *file;
    const char *build_id; /* hexadecimal; "": none */
};

/* The strings of labels' keys. */
enum pprof_string { PPROF_THREAD = 5, PPROF_TID, PPROF_LABEL, PPROF_PROGRAM };

struct pprof_label {
    uint64_t key;
    uint64_t string; /* 0: it is a number */
    int64_t number;
};

#define PPROF_LABELS_MAX 4u

/* Begins the file. 0, or -ENOMEM where ARENA, which keeps all memory, has too little. */
int pprof_begin(struct pprof *pprof, const struct pprof_facts *facts, struct gzip_sink sink,
                struct arena *arena);

/* Adds TEXT, of any bytes but NUL: what is no UTF-8 in it becomes `?`. Returns its number. */
uint64_t pprof_string(struct pprof *pprof, const char *text);

void pprof_mapping(struct pprof *pprof, const struct pprof_mapping *mapping);

/* IDs are not 0. */
void pprof_function(struct pprof *pprof, uint64_t id, const char *name);

#define PPROF_LINES_MAX 64u

/* MAPPING 0: in none. COUNT FUNCTIONS (PPROF_LINES_MAX at most): that of the place, and in front of
 * it those that were inlined there, the innermost first. */
void pprof_location(struct pprof *pprof, uint64_t id, uint64_t mapping, uint64_t address,
                    const uint64_t *functions, size_t count);

/* A stack of COUNT locations, leaf first, with LABEL_COUNT labels (PPROF_LABELS_MAX at most). */
void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t count, uint64_t samples,
                  uint64_t cpu_ns, const struct pprof_label *labels, size_t label_count);

/* Ends it. */
void pprof_end(struct pprof *pprof);

#endif
