/* The growing array in an arena. */
#include "check.h"

#include "sequence.h"

static struct sequence sequence;

TEST(elements_keep_place_and_value)
{
    struct arena arena;
    arena_init(&arena, 0);
    sequence_init(&sequence, &arena, sizeof(uint64_t));
    uint64_t *first = NULL;
    for (uint64_t i = 0; i < 200000; i++) {
        uint64_t *element = sequence_append(&sequence);
        REQUIRE(element != NULL && *element == 0);
        *element = i * i;
        first = first != NULL ? first : element;
    }
    CHECK_U64(sequence.count, 200000);
    CHECK(sequence_at(&sequence, 0) == first);
    for (uint32_t i = 0; i < 200000; i++)
        REQUIRE(*(uint64_t *)sequence_at(&sequence, i) == (uint64_t)i * i);
    arena_destroy(&arena);
}

TEST(the_last_can_be_taken_back)
{
    struct arena arena;
    arena_init(&arena, 0);
    sequence_init(&sequence, &arena, 12);
    char *element = sequence_append(&sequence);
    REQUIRE(element != NULL);
    memset(element, 1, 12);
    sequence_drop_last(&sequence);
    CHECK_U64(sequence.count, 0);
    CHECK(sequence_append(&sequence) == element);
    CHECK(element[0] == 0 && element[11] == 0);
    arena_destroy(&arena);
}

TEST(out_of_memory_leaves_it_as_it_was)
{
    struct arena arena;
    for (int nth = 1; nth <= 2; nth++) {
        arena_init(&arena, 0);
        sequence_init(&sequence, &arena, sizeof(uint64_t));
        arena.fail_countdown = nth;
        CHECK(sequence_append(&sequence) == NULL);
        CHECK_U64(sequence.count, 0);
        CHECK(sequence_append(&sequence) != NULL);
        CHECK_U64(sequence.count, 1);
        arena_destroy(&arena);
    }
}

TEST(it_ends_at_its_maximum)
{
    struct arena arena;
    arena_init(&arena, 0);
    sequence_init(&sequence, &arena, 1);
    while (sequence.count < SEQUENCE_MAX)
        REQUIRE(sequence_append(&sequence) != NULL);
    CHECK(sequence_append(&sequence) == NULL);
    CHECK_U64(sequence.count, SEQUENCE_MAX);
    arena_destroy(&arena);
}
