/* Edit distance: distances counted by hand, and against a plain recursive definition. */
#include "check.h"

#include <stdlib.h>

#include "nearest.h"

TEST(distances_by_hand)
{
    CHECK_U64(nearest_distance("", ""), 0);
    CHECK_U64(nearest_distance("", "abc"), 3);
    CHECK_U64(nearest_distance("abc", ""), 3);
    CHECK_U64(nearest_distance("RATE", "rate"), 0);
    CHECK_U64(nearest_distance("RAET", "RATE"), 1); /* a swap */
    CHECK_U64(nearest_distance("RAT", "RATE"), 1);
    CHECK_U64(nearest_distance("RATES", "RATE"), 1);
    CHECK_U64(nearest_distance("RITE", "RATE"), 1);
    CHECK_U64(nearest_distance("kitten", "sitting"), 3);
    CHECK_U64(nearest_distance("ca", "abc"), 3); /* no letter edited twice */
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static unsigned defined(const char *a, size_t i, const char *b, size_t j)
{
    if (i == 0 || j == 0)
        return (unsigned)(i + j);
    unsigned cost = defined(a, i - 1, b, j - 1) + (a[i - 1] != b[j - 1]);
    cost = least(cost, least(defined(a, i - 1, b, j), defined(a, i, b, j - 1)) + 1);
    if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        cost = least(cost, defined(a, i - 2, b, j - 2) + 1);
    return cost;
}

TEST(random_words_agree_with_the_definition)
{
    for (int round = 0; round < 2000; round++) {
        char a[7] = "", b[7] = "";
        for (int i = rand() % 7; i-- > 0;)
            a[i] = (char)('a' + rand() % 3);
        for (int i = rand() % 7; i-- > 0;)
            b[i] = (char)('a' + rand() % 3);
        CHECK_U64(nearest_distance(a, b), defined(a, strlen(a), b, strlen(b)));
    }
}

TEST(long_words_are_like_no_other)
{
    const char *longest = "1234567890123456789012345678901";
    const char *too_long = "12345678901234567890123456789012";
    CHECK_U64(strlen(longest), NEAREST_BYTES_MAX);
    CHECK_U64(nearest_distance(longest, longest), 0);
    CHECK_U64(nearest_distance(too_long, too_long), NEAREST_BYTES_MAX + 1);
    CHECK(nearest_word(too_long, &too_long, 1) == NULL);
}

TEST(the_nearest_word_if_it_is_near)
{
    const char *const words[] = {"samples", "us", "usual"};
    CHECK_STR(nearest_word("sample", words, 3), "samples");
    CHECK_STR(nearest_word("usu", words, 3), "us");
    CHECK_STR(nearest_word("usua", words, 3), "usual");
    CHECK(nearest_word("milliseconds", words, 3) == NULL);
    CHECK(nearest_word("", words, 3) == NULL);
    CHECK(nearest_word("x", words, 0) == NULL);
}
