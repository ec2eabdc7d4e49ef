/*
 * Folded profiles out of any bytes, through the reader of the command's views. libFuzzer's entry.
 *
 * That reader frees nothing and ends its process where a file is damaged. Here it is built with an
 * allocator that remembers what it gave, and its end is a jump.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

#define malloc(bytes)                   piece_make(bytes)
#define calloc(count, bytes)            piece_make((count) * (bytes))
#define realloc(old, bytes)             piece_grow(old, bytes)
#define reallocarray(old, count, bytes) piece_grow(old, (count) * (bytes))
#define strdup(text)                    piece_copy(text, strlen(text))
#define strndup(text, length)           piece_copy(text, strnlen(text, length))
#define free(memory)                    ((void)(memory)) /* with all others, at the end */
#include "scripts/stacks.c"
#include "scripts/view_read.c"

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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct view_options options = {.roots = 1};
    struct stacks stacks;
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, bytes) != (ssize_t)bytes)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (bytes > 0 && data[0] % 2 != 0)
        options.thread = "a*";
    if (setjmp(damaged_file) == 0) {
        stacks_open(&stacks);
        view_read(&stacks, 0, path, NULL, &options);
        stacks_sort(&stacks);
        tree_check(&stacks);
    }
    pieces_free();
    close_range((unsigned)fd, ~0u, 0); /* a damaged file was left open */
    return 0;
}
