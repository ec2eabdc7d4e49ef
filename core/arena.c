/* Bump allocator over anonymous mappings. Runs in the helper (and in unit tests). */
#include "arena.h"

#include <sys/mman.h>

#include "mapping.h"
#include "sys.h"

#define CHUNK_BYTES     (256u * 1024)
#define ALIGNMENT_BYTES 16u

struct arena_chunk {
    struct arena_chunk *older;
    size_t size; /* of the mapping, this header included */
    size_t used; /* this header included */
};

#define HEADER_BYTES                                                                               \
    ((sizeof(struct arena_chunk) + ALIGNMENT_BYTES - 1) & ~(size_t)(ALIGNMENT_BYTES - 1))

/* Under AddressSanitizer, memory that was not given out is not to be touched. */
#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define IS_WATCHED 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(IS_WATCHED)
#include <sanitizer/asan_interface.h>
#define memory_hide(memory, bytes) __asan_poison_memory_region(memory, bytes)
#define memory_show(memory, bytes) __asan_unpoison_memory_region(memory, bytes)
#else
#define memory_hide(memory, bytes) ((void)(memory), (void)(bytes))
#define memory_show(memory, bytes) ((void)(memory), (void)(bytes))
#endif

void arena_init(struct arena *arena, size_t limit_bytes)
{
    *arena = (struct arena){.limit_bytes = limit_bytes};
}

static struct arena_chunk *chunk_add(struct arena *arena, size_t payload_bytes)
{
    size_t size = payload_bytes + HEADER_BYTES;
    size = size <= CHUNK_BYTES ? CHUNK_BYTES : (size + 4095) & ~(size_t)4095;
    if (arena->limit_bytes != 0 &&
        (size > arena->limit_bytes || arena->mapped_bytes > arena->limit_bytes - size))
        return NULL;
    struct arena_chunk *chunk = mapping_not_for_forks(size);
    if (sys_is_error(chunk))
        return NULL;
    /* A fork must not copy what only the helper of this process can use. */
    sys3(SYS_madvise, chunk, size, MADV_DONTFORK);
    *chunk = (struct arena_chunk){.older = arena->newest, .size = size, .used = HEADER_BYTES};
    memory_hide((char *)chunk + HEADER_BYTES, size - HEADER_BYTES);
    arena->newest = chunk;
    arena->mapped_bytes += size;
    if (arena->mapped_bytes > arena->peak_bytes)
        arena->peak_bytes = arena->mapped_bytes;
    return chunk;
}

void *arena_alloc(struct arena *arena, size_t bytes)
{
    if (arena->fail_countdown > 0 && --arena->fail_countdown == 0)
        return NULL;
    if (bytes > SIZE_MAX / 2)
        return NULL;
    size_t asked = bytes == 0 ? 1 : bytes;
    bytes = (asked + ALIGNMENT_BYTES - 1) & ~(size_t)(ALIGNMENT_BYTES - 1);
    struct arena_chunk *chunk = arena->newest;
    if (chunk == NULL || chunk->size - chunk->used < bytes)
        chunk = chunk_add(arena, bytes);
    if (chunk == NULL)
        return NULL;
    char *memory = (char *)chunk + chunk->used;
    chunk->used += bytes;
    memory_show(memory, asked);
    return memory;
}

void *arena_alloc_array(struct arena *arena, size_t count, size_t bytes)
{
    size_t total;
    if (__builtin_mul_overflow(count, bytes, &total))
        return NULL;
    return arena_alloc(arena, total);
}

char *arena_copy_text(struct arena *arena, const char *text, size_t length)
{
    char *copy = arena_alloc(arena, length + 1);
    if (copy != NULL)
        __builtin_memcpy(copy, text, length);
    return copy;
}

struct arena_mark arena_mark(const struct arena *arena)
{
    return (struct arena_mark){arena->newest, arena->newest ? arena->newest->used : 0};
}

void arena_release(struct arena *arena, struct arena_mark mark)
{
    while (arena->newest != mark.chunk) {
        struct arena_chunk *gone = arena->newest;
        arena->newest = gone->older;
        arena->mapped_bytes -= gone->size;
        memory_show(gone, gone->size);
        sys_munmap(gone, gone->size);
    }
    if (mark.chunk != NULL) {
        /* Given-out memory is zeroed: what was used since the mark must not show again. */
        char *from = (char *)mark.chunk + mark.used;
        size_t bytes = mark.chunk->used - mark.used;
        memory_show(from, bytes);
        __builtin_memset(from, 0, bytes);
        memory_hide(from, bytes);
        mark.chunk->used = mark.used;
    }
}

void arena_destroy(struct arena *arena)
{
    arena_release(arena, (struct arena_mark){NULL, 0});
}
