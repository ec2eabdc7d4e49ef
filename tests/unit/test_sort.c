/* The heap sort, against the definition of sorted and against qsort of libc. */
#include "check.h"

#include <stdlib.h>

#include "sort.h"

static unsigned long compared;

static bool ascending(const void *context, uint32_t a, uint32_t b)
{
    (void)context;
    compared++;
    return a < b;
}

static bool by_value(const void *context, uint32_t a, uint32_t b)
{
    const uint64_t *values = context;
    return values[a] > values[b] || (values[a] == values[b] && a < b);
}

static int qsort_ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

TEST(nothing_and_one)
{
    uint32_t item = 7;
    sort_indices(NULL, 0, ascending, NULL);
    sort_indices(&item, 1, ascending, NULL);
    CHECK_U64(item, 7);
}

TEST(every_length_agrees_with_qsort)
{
    for (unsigned count = 0; count < 300; count++) {
        uint32_t items[300], expected[300];
        for (unsigned i = 0; i < count; i++)
            items[i] = expected[i] = (uint32_t)rand() % (count + 1);
        sort_indices(items, count, ascending, NULL);
        qsort(expected, count, sizeof *expected, qsort_ascending);
        CHECK(memcmp(items, expected, count * sizeof *items) == 0);
    }
}

TEST(indices_by_what_they_stand_for)
{
    const uint64_t values[] = {5, 9, 5, 1, 9};
    const uint32_t expected[] = {1, 4, 0, 2, 3};
    uint32_t items[] = {0, 1, 2, 3, 4};
    sort_indices(items, 5, by_value, values);
    CHECK_MEM(items, expected, sizeof expected);
}

/* At most 2 n log2 n comparisons, whatever the order was before. */
TEST(no_bad_case)
{
    static uint32_t items[65536];
    for (int order = 0; order < 3; order++) {
        for (uint32_t i = 0; i < 65536; i++)
            items[i] = order == 0 ? i : order == 1 ? 65536 - i : i % 2;
        compared = 0;
        sort_indices(items, 65536, ascending, NULL);
        CHECK(compared <= 2ul * 65536 * 16);
        for (uint32_t i = 1; i < 65536; i++)
            REQUIRE(items[i - 1] <= items[i]);
    }
}
