/*
 * Profiles out of any bytes, through the readers of the command's views: folded files, or pprof
 * files, which are packed here. libFuzzer's entry; the first byte chooses.
 *
 * These readers do not free everything and end their process where a file is damaged. Here they are
 * built with an allocator that remembers what it gave, and their end is a jump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pprof.pb-c.h"

/* What is allocated for one input, linked by a header in front of it. */
struct piece {
    _Alignas(16) struct piece *next;
    size_t bytes;
};

static struct piece *pieces;

static void *piece_make(size_t bytes)
{
    struct piece *piece = calloc(1, sizeof *piece + bytes);
    if (piece == NULL)
        abort();
    *piece = (struct piece){pieces, bytes};
    pieces = piece;
    return piece + 1;
}

static void *piece_grow(void *old, size_t bytes)
{
    void *grown = piece_make(bytes);
    size_t kept = old != NULL ? ((struct piece *)old - 1)->bytes : 0;
    if (kept > 0)
        memcpy(grown, old, kept < bytes ? kept : bytes);
    return grown;
}

static char *piece_copy(const char *text, size_t length)
{
    char *copy = piece_make(length + 1);
    return memcpy(copy, text, length);
}

static void pieces_free(void)
{
    while (pieces != NULL) {
        struct piece *next = pieces->next;
        free(pieces);
        pieces = next;
    }
}

static void *piece_give(void *unused, size_t bytes)
{
    (void)unused;
    return piece_make(bytes);
}

static void piece_keep(void *unused, void *memory)
{
    (void)unused, (void)memory; /* with all others, at the end */
}

static ProtobufCAllocator piece_allocator = {piece_give, piece_keep, NULL};

#define malloc(bytes)                   piece_make(bytes)
#define calloc(count, bytes)            piece_make((count) * (bytes))
#define realloc(old, bytes)             piece_grow(old, bytes)
#define reallocarray(old, count, bytes) piece_grow(old, (count) * (bytes))
#define strdup(text)                    piece_copy(text, strlen(text))
#define strndup(text, length)           piece_copy(text, strnlen(text, length))
#define free(memory)                    ((void)(memory)) /* with all others, at the end */
#include "scripts/stacks.c"
#include "scripts/view_numbers.c"
#include "scripts/view_read.c"

/* Both files have these. */
#define damaged          pprof_damaged
#define thread_is_wanted pprof_thread_is_wanted
#define pprof__profile__unpack(allocator, count, bytes)                                            \
    pprof__profile__unpack(&piece_allocator, count, bytes)
#define pprof__profile__free_unpacked(profile, allocator) ((void)(profile))
#include "scripts/pprof_read.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static jmp_buf damaged_file;

void view_fail(const char *format, ...)
{
    (void)format;
    longjmp(damaged_file, 1);
}

void progress_begin(const char *what, uint64_t whole)
{
    (void)what, (void)whole;
}

void progress_step(uint64_t done)
{
    (void)done;
}

void progress_end(void)
{
}

/* Every node's total is its own count and those of the nodes under it. */
static void tree_check(const struct stacks *stacks)
{
    for (const struct node *node = stacks->root; node != NULL; node = stacks_next(node, true)) {
        uint64_t total = node->self[0];
        for (const struct node *child = node->first_child; child != NULL; child = child->next)
            total += child->total[0];
        if (total != node->total[0])
            abort();
    }
}

/* As gzip would have it that does not compress: one block. */
static void packed_write(int fd, const uint8_t *data, size_t bytes)
{
    uint16_t length = bytes > UINT16_MAX ? UINT16_MAX : (uint16_t)bytes;
    uint16_t complement = (uint16_t)~length;
    uint32_t ends[2] = {(uint32_t)crc32(0, data, length), length};
    dprintf(fd, "\x1f\x8b\x08%c%c%c%c%c%c%c\x01", 0, 0, 0, 0, 0, 0, 3);
    if (write(fd, &length, 2) != 2 || write(fd, &complement, 2) != 2 ||
        write(fd, data, length) != length || write(fd, ends, sizeof ends) != sizeof ends)
        abort();
}

static void profile_read(const char *path, struct view_options *options)
{
    struct stacks stacks;
    stacks_open(&stacks);
    view_read(&stacks, 0, path, NULL, options);
    stacks_sort(&stacks);
    tree_check(&stacks);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || bytes == 0)
        return 0;
    struct view_options options = {
        .roots = data[0] / 4 % 2, .is_us = data[0] / 8 % 2 != 0, .rate = 999};
    /* Without a frame that is a thread, the command refuses what concerns threads. */
    options.merge_threads = options.roots != 0 && (data[0] & 16) != 0;
    if (options.roots != 0 && (data[0] & 2) != 0)
        options.thread = "a*";
    if ((data[0] & 1) != 0)
        packed_write(fd, data + 1, bytes - 1);
    else if (write(fd, data + 1, bytes - 1) != (ssize_t)bytes - 1)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (setjmp(damaged_file) == 0)
        profile_read(path, &options);
    pieces_free();
    close_range((unsigned)fd, ~0u, 0); /* a damaged file was left open */
    return 0;
}
