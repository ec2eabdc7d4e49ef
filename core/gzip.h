/*
 * Compresses a stream of bytes as gzip does (RFC 1952), with zlib. All memory is an arena's, some
 * 300 KB; nothing of libc is entered (see scripts/pprof.mk).
 *
 * Thread safety: one task at a time per struct gzip.
 */
#ifndef SELFSAMPLE_CORE_GZIP_H
#define SELFSAMPLE_CORE_GZIP_H

#include <stddef.h>

struct arena;
struct gzip;

/* Who takes what is compressed, and keeps an error of its own to itself. */
struct gzip_sink {
    void (*put)(void *context, const char *bytes, size_t length);
    void *context;
};

/* Begins a stream, in ARENA; NULL where that has too little memory. */
struct gzip *gzip_open(struct arena *arena, struct gzip_sink sink);

void gzip_put(struct gzip *gzip, const void *bytes, size_t length);

/* Ends the stream. GZIP is of no use then; its memory goes with the arena's. */
void gzip_close(struct gzip *gzip);

#endif
