/*
 * Compresses with zlib. Runs in the helper, and in the selfsample command. zlib's memory is the
 * arena's; what it references in libc is renamed to the functions at the end of this file where it
 * is linked into the library (scripts/pprof.mk).
 */
#include "gzip.h"

#include <string.h>
#include <zlib.h>

#include "arena.h"

#define GZIP_WRAPPER 16 /* to be added to the window's bits: gzip's header and checksum */
#define MEMORY_LEVEL 8  /* zlib's default */
#define INPUT_BYTES  16384u
#define OUTPUT_BYTES 16384u

struct gzip {
    z_stream stream;
    struct gzip_sink sink;
    size_t waiting; /* small pieces come in by the hundred thousand, and are collected */
    unsigned char input[INPUT_BYTES], output[OUTPUT_BYTES];
};

/* What zlib would call of libc if it were not given an allocator. */
void *gzip_malloc(size_t bytes);
void gzip_free(void *memory);
_Noreturn void gzip_stack_broken(void);

static void *arena_give(void *opaque, unsigned count, unsigned bytes)
{
    return arena_alloc_array(opaque, count, bytes);
}

static void arena_keep(void *opaque, void *memory)
{
    (void)opaque, (void)memory; /* given back as a whole */
}

struct gzip *gzip_open(struct arena *arena, struct gzip_sink sink)
{
    struct gzip *gzip = arena_alloc(arena, sizeof *gzip);
    if (gzip == NULL)
        return NULL;
    gzip->stream = (z_stream){.zalloc = arena_give, .zfree = arena_keep, .opaque = arena};
    gzip->sink = sink;
    int result = deflateInit2(&gzip->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED,
                              MAX_WBITS + GZIP_WRAPPER, MEMORY_LEVEL, Z_DEFAULT_STRATEGY);
    return result == Z_OK ? gzip : NULL;
}

/* Compresses what is waiting. Each turn makes output, but for the last. */
static void waiting_compress(struct gzip *gzip, int flush)
{
    z_stream *stream = &gzip->stream;
    stream->next_in = gzip->input;
    stream->avail_in = (unsigned)gzip->waiting;
    do {
        stream->next_out = gzip->output;
        stream->avail_out = OUTPUT_BYTES;
        deflate(stream, flush);
        if (stream->avail_out < OUTPUT_BYTES)
            gzip->sink.put(gzip->sink.context, (const char *)gzip->output,
                           OUTPUT_BYTES - stream->avail_out);
    } while (stream->avail_out == 0);
    gzip->waiting = 0;
}

void gzip_put(struct gzip *gzip, const void *bytes, size_t length)
{
    const char *from = bytes;
    while (length > 0) {
        size_t room = INPUT_BYTES - gzip->waiting;
        size_t part = length < room ? length : room;
        memcpy(gzip->input + gzip->waiting, from, part);
        gzip->waiting += part;
        from += part;
        length -= part;
        if (gzip->waiting == INPUT_BYTES)
            waiting_compress(gzip, Z_NO_FLUSH);
    }
}

void gzip_close(struct gzip *gzip)
{
    waiting_compress(gzip, Z_FINISH);
    deflateEnd(&gzip->stream);
}

void *gzip_malloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void gzip_free(void *memory)
{
    (void)memory;
}

void gzip_stack_broken(void)
{
    __builtin_trap();
}
