/* code_index: which piece of code was at an address, when. */
#include "code_index.h"

#include "check.h"

#include <errno.h>
#include <stdlib.h>

static struct arena arena;
static struct code_index code;

static void prepare(void)
{
    arena_destroy(&arena);
    arena_init(&arena, 0);
    code_index_init(&code, &arena);
}

static uint32_t find(uint64_t address, uint64_t now_ns)
{
    bool settled;
    return code_index_find(&code, address, now_ns, &settled);
}

TEST(an_empty_index_has_nothing)
{
    bool settled = false;
    prepare();
    CHECK_U64(code_index_find(&code, 0x1000, 1, &settled), CODE_NONE);
    CHECK(settled);
}

TEST(a_piece_has_its_first_byte_and_not_the_one_behind_it)
{
    prepare();
    CHECK(code_index_add(&code, 0x1ff0, 0x20, 1, 77) == 0);
    CHECK_U64(find(0x1fef, 5), CODE_NONE);
    CHECK_U64(find(0x1ff0, 5), 0);
    CHECK_U64(find(0x200f, 5), 0);
    CHECK_U64(find(0x2010, 5), CODE_NONE);
    CHECK_U64(code_index_at(&code, 0)->tag, 77);
}

TEST(the_youngest_that_was_there_counts)
{
    bool settled;
    prepare();
    code_index_add(&code, 0x1000, 0x100, 10, 0);
    code_index_add(&code, 0x1080, 0x100, 20, 0);
    code_index_add(&code, 0x1000, 0x100, 30, 0);
    CHECK_U64(find(0x10c0, 15), 0);
    CHECK_U64(find(0x10c0, 20), 1);
    CHECK_U64(find(0x10c0, 29), 1);
    CHECK_U64(find(0x10c0, 30), 2);
    CHECK_U64(find(0x1110, 99), 1);
    CHECK_U64(code_index_find(&code, 0x10c0, 29, &settled), 1);
    CHECK(!settled);
    CHECK_U64(code_index_find(&code, 0x10c0, 30, &settled), 2);
    CHECK(settled);
    CHECK_U64(code_index_find(&code, 0x1110, 29, &settled), 1);
    CHECK(settled);
}

TEST(before_all_of_them_it_is_the_first_that_came)
{
    bool settled = true;
    prepare();
    code_index_add(&code, 0x1000, 0x100, 10, 0);
    code_index_add(&code, 0x1000, 0x100, 20, 0);
    CHECK_U64(code_index_find(&code, 0x1000, 9, &settled), 0);
    CHECK(!settled);
}

TEST(large_pieces_and_small_ones)
{
    prepare();
    code_index_add(&code, 0x10000000, 64 << 20, 10, 0);
    code_index_add(&code, 0x10200000, 0x100, 20, 0);
    code_index_add(&code, 0x12000000, 0x100, 5, 0);
    code_index_add(&code, 0x12000000, 8 << 20, 30, 0);
    CHECK_U64(find(0x10000000 + (64 << 20) - 1, 99), 0);
    CHECK_U64(find(0x10200000, 19), 0);
    CHECK_U64(find(0x10200000, 20), 1);
    CHECK_U64(find(0x10200100, 20), 0);
    CHECK_U64(find(0x12000000, 29), 2); /* added later, whatever time it is known since */
    CHECK_U64(find(0x12000000, 30), 3);
}

TEST(what_cannot_be_code_is_refused)
{
    prepare();
    CHECK(code_index_add(&code, 0x1000, 0, 1, 0) == -EINVAL);
    CHECK(code_index_add(&code, 0x1000, (uint64_t)CODE_PIECE_BYTES_MAX + 1, 1, 0) == -EINVAL);
    CHECK(code_index_add(&code, UINT64_MAX - 1, 3, 1, 0) == -EINVAL);
    CHECK(code_index_add(&code, UINT64_MAX - 1, 2, 1, 0) == 0);
    CHECK_U64(find(UINT64_MAX, 1), 0);
}

TEST(a_slow_search_agrees)
{
    enum { PIECES = 3000, TRIES = 20000 };
    prepare();
    srand(4);
    for (unsigned i = 0; i < PIECES; i++) {
        uint64_t bytes = rand() % 50 == 0 ? (uint64_t)rand() % (4 << 20) : (uint64_t)rand() % 5000;
        CHECK(code_index_add(&code, 0x40000000 + (uint64_t)rand() % (16 << 20), bytes + 1, i, 0) ==
              0);
    }
    for (unsigned i = 0; i < TRIES; i++) {
        uint64_t address = 0x40000000 + (uint64_t)rand() % (17 << 20);
        uint64_t now = (uint64_t)rand() % PIECES;
        uint32_t wanted = CODE_NONE;
        for (uint32_t p = 0; p < PIECES; p++) {
            const struct code_piece *piece = code_index_at(&code, p);
            if (address >= piece->start && address < piece->start + piece->bytes &&
                (piece->from_ns <= now || wanted == CODE_NONE))
                wanted = p;
        }
        uint32_t found = find(address, now);
        if (found != wanted)
            CHECK_U64(found, wanted);
    }
}

TEST(every_allocation_may_fail)
{
    for (int n = 1; n < 8; n++) { /* the heads, and groups and blocks of both sequences */
        prepare();
        arena.fail_countdown = n;
        bool failed = false;
        for (unsigned i = 0; i < 300; i++)
            failed |= code_index_add(&code, 0x1000 * i + 0x1000, 0x100, 1, 0) == -ENOMEM;
        find(0x3000, 1);
        arena.fail_countdown = 0;
        CHECK(failed);
    }
}
