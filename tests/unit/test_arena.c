/* The arena: alignment, zeroing, limits and the mark. */
#include "check.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"

static bool all_zero(const char *memory, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        if (memory[i] != 0)
            return false;
    return true;
}

TEST(an_empty_arena_maps_nothing)
{
    struct arena arena;
    arena_init(&arena, 0);
    CHECK_U64(arena.mapped_bytes, 0);
    arena_destroy(&arena);
}

TEST(memory_is_zeroed_aligned_and_apart)
{
    struct arena arena;
    arena_init(&arena, 0);
    char *before = NULL;
    size_t before_bytes = 0;
    for (size_t bytes = 0; bytes < 2000; bytes += 7) {
        char *memory = arena_alloc(&arena, bytes);
        REQUIRE(memory != NULL);
        CHECK_U64((uintptr_t)memory % 16, 0);
        CHECK(all_zero(memory, bytes));
        CHECK(before == NULL || memory >= before + before_bytes || memory + bytes <= before);
        memset(memory, 0xff, bytes);
        before = memory;
        before_bytes = bytes;
    }
    arena_destroy(&arena);
}

TEST(a_large_block_is_whole)
{
    struct arena arena;
    arena_init(&arena, 0);
    size_t bytes = 3u << 20;
    char *memory = arena_alloc(&arena, bytes);
    REQUIRE(memory != NULL);
    CHECK(all_zero(memory, bytes));
    memset(memory, 1, bytes);
    CHECK(arena.mapped_bytes >= bytes);
    arena_destroy(&arena);
    CHECK_U64(arena.mapped_bytes, 0);
    CHECK(arena.peak_bytes >= bytes);
}

/* In a child of fork: is what stands at ADDRESS, not 0, not there? Something else may be: a
 * sanitizer's thread begins anew in a child, on a stack in the first place that is free. */
static bool a_child_is_without(const char *address)
{
    int status = 0, ends[2];
    REQUIRE(pipe(ends) == 0);
    pid_t child = fork();
    if (child == 0) {
        char there = 0;
        if (write(ends[1], address, 1) != 1)
            _exit(errno == EFAULT ? 0 : 2);
        _exit(read(ends[0], &there, 1) != 1 ? 2 : there != 0);
    }
    close(ends[0]);
    close(ends[1]);
    bool ended = child > 0 && waitpid(child, &status, 0) == child;
    CHECK(ended && WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return ended && status == 0;
}

/* Emulators of processors keep no memory from a child. */
static bool kernel_heeds_dontfork(void)
{
    size_t bytes = (size_t)sysconf(_SC_PAGESIZE);
    char *page = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return true;
    page[0] = 1;
    madvise(page, bytes, MADV_DONTFORK);
    bool heeds = a_child_is_without(page);
    munmap(page, bytes);
    return heeds;
}

/* What is only the parent's helper's makes no fork slower, and no child larger. */
TEST(a_fork_does_not_copy_it)
{
    struct arena arena;
    if (!kernel_heeds_dontfork())
        SKIP("MADV_DONTFORK has no effect here");
    arena_init(&arena, 0);
    char *memory = arena_alloc(&arena, 3u << 20);
    REQUIRE(memory != NULL);
    memory[0] = 1;
    CHECK(a_child_is_without(memory));
    arena_destroy(&arena);
}

TEST(the_limit_holds)
{
    struct arena arena;
    arena_init(&arena, 1u << 20);
    unsigned given = 0;
    while (given < 1000 && arena_alloc(&arena, 100000) != NULL)
        given++;
    CHECK(given >= 4 && given <= 10);
    CHECK(arena.mapped_bytes <= 1u << 20);
    CHECK(arena_alloc(&arena, 2u << 20) == NULL);
    arena_destroy(&arena);
}

TEST(absurd_sizes_are_refused)
{
    struct arena arena;
    arena_init(&arena, 0);
    CHECK(arena_alloc(&arena, SIZE_MAX) == NULL);
    CHECK(arena_alloc(&arena, SIZE_MAX / 2) == NULL);
    CHECK(arena_alloc_array(&arena, SIZE_MAX / 2, 4) == NULL);
    CHECK(arena_alloc_array(&arena, 4, SIZE_MAX / 2) == NULL);
    CHECK(arena_alloc_array(&arena, 3, 5) != NULL);
    arena_destroy(&arena);
}

TEST(the_nth_allocation_fails)
{
    struct arena arena;
    arena_init(&arena, 0);
    arena.fail_countdown = 2;
    CHECK(arena_alloc(&arena, 1) != NULL);
    CHECK(arena_alloc(&arena, 1) == NULL);
    CHECK(arena_alloc(&arena, 1) != NULL);
    arena_destroy(&arena);
}

TEST(text_is_copied_with_its_end)
{
    struct arena arena;
    arena_init(&arena, 0);
    CHECK_STR(arena_copy_text(&arena, "abcdef", 3), "abc");
    CHECK_STR(arena_copy_text(&arena, "abc", 0), "");
    arena.fail_countdown = 1;
    CHECK(arena_copy_text(&arena, "abc", 3) == NULL);
    arena_destroy(&arena);
}

TEST(release_takes_back_to_the_mark_and_zeroes)
{
    struct arena arena;
    arena_init(&arena, 0);
    char *kept = arena_alloc(&arena, 100);
    REQUIRE(kept != NULL);
    memset(kept, 1, 100);
    struct arena_mark mark = arena_mark(&arena);
    size_t mapped = arena.mapped_bytes;
    char *first = arena_alloc(&arena, 1000);
    REQUIRE(first != NULL);
    memset(first, 2, 1000);
    for (int i = 0; i < 20; i++)
        REQUIRE(arena_alloc(&arena, 200000) != NULL);
    arena_release(&arena, mark);
    CHECK_U64(arena.mapped_bytes, mapped);
    char *again = arena_alloc(&arena, 1000);
    CHECK(again == first);
    CHECK(all_zero(again, 1000));
    CHECK(kept[99] == 1);
    arena_destroy(&arena);
}

TEST(a_mark_of_an_empty_arena_releases_all)
{
    struct arena arena;
    arena_init(&arena, 0);
    struct arena_mark mark = arena_mark(&arena);
    REQUIRE(arena_alloc(&arena, 10) != NULL);
    arena_release(&arena, mark);
    CHECK_U64(arena.mapped_bytes, 0);
    CHECK(arena_alloc(&arena, 10) != NULL);
    arena_destroy(&arena);
}
