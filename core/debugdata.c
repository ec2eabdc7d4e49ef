/*
 * Unpacks .gnu_debugdata with liblzma. Runs in the helper. All of liblzma's memory is the arena's:
 * its allocator is handed to every call, and its references to libc are renamed to the functions at
 * the end of this file when it is linked in (scripts/lzma.mk).
 */
#include "debugdata.h"

#include <errno.h>
#include <lzma.h>

#include "arena.h"
#include "elf_section.h"

#define PACKED_BYTES_MAX   (16u * 1024 * 1024)
#define UNPACKED_BYTES_MAX (64u * 1024 * 1024)
#define DECODER_BYTES_MAX  (80u * 1024 * 1024) /* "xz -9" needs a dictionary of 64 MiB */

/* What liblzma would call of libc if it were not given an allocator. */
void *debugdata_malloc(size_t bytes);
void *debugdata_calloc(size_t count, size_t bytes);
void debugdata_free(void *memory);
_Noreturn void debugdata_stack_broken(void);

static void *arena_give(void *opaque, size_t count, size_t bytes)
{
    return arena_alloc_array(opaque, count, bytes);
}

static void arena_keep(void *opaque, void *memory)
{
    (void)opaque, (void)memory; /* given back as a whole */
}

/* How long the data will be once unpacked, from the index at its end; 0 where that is damaged. */
static uint64_t unpacked_bytes(const uint8_t *packed, size_t count, const lzma_allocator *allocator)
{
    lzma_stream_flags footer;
    lzma_index *index = NULL;
    uint64_t memory_limit = DECODER_BYTES_MAX;
    if (count < 2 * LZMA_STREAM_HEADER_SIZE)
        return 0;
    size_t footer_at = count - LZMA_STREAM_HEADER_SIZE;
    if (lzma_stream_footer_decode(&footer, packed + footer_at) != LZMA_OK ||
        footer.backward_size > footer_at)
        return 0;
    size_t at = footer_at - (size_t)footer.backward_size;
    if (lzma_index_buffer_decode(&index, &memory_limit, allocator, packed, &at, footer_at) !=
        LZMA_OK)
        return 0;
    return lzma_index_uncompressed_size(index);
}

static int unpack(struct elf_source *unpacked, const uint8_t *packed, size_t count,
                  struct arena *arena)
{
    const lzma_allocator allocator = {arena_give, arena_keep, arena};
    uint64_t bytes = unpacked_bytes(packed, count, &allocator);
    uint64_t memory_limit = DECODER_BYTES_MAX;
    size_t packed_at = 0, memory_at = 0;
    if (bytes == 0 || bytes > UNPACKED_BYTES_MAX)
        return -EBADMSG;
    uint8_t *memory = arena_alloc(arena, (size_t)bytes);
    if (memory == NULL)
        return -ENOMEM;
    lzma_ret result = lzma_stream_buffer_decode(&memory_limit, 0, &allocator, packed, &packed_at,
                                                count, memory, &memory_at, (size_t)bytes);
    if (result == LZMA_MEM_ERROR || result == LZMA_MEMLIMIT_ERROR)
        return -ENOMEM;
    if (result != LZMA_OK || memory_at != bytes)
        return -EBADMSG;
    *unpacked = elf_source_memory(memory, bytes);
    return 0;
}

int debugdata_open(struct elf_file *debug, const struct elf_file *main, struct arena *arena)
{
    struct elf_section section;
    struct elf_source unpacked;
    if (!elf_section_find(main, ".gnu_debugdata", &section))
        return -ENOENT;
    const uint8_t *packed = elf_section_load(main, &section, PACKED_BYTES_MAX, arena);
    if (packed == NULL)
        return -EBADMSG;
    int error = unpack(&unpacked, packed, (size_t)section.bytes, arena);
    if (error == 0)
        error = elf_file_read(debug, unpacked, arena);
    return error == -ENOEXEC ? -EBADMSG : error;
}

void *debugdata_malloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void *debugdata_calloc(size_t count, size_t bytes)
{
    (void)count, (void)bytes;
    return NULL;
}

void debugdata_free(void *memory)
{
    (void)memory;
}

void debugdata_stack_broken(void)
{
    __builtin_trap();
}
