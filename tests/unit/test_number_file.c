/* number_file: numbers as /proc and /sys write them, and what is none. */
#include "number_file.h"

#include "elf_fixture.h"

static int64_t number_of(const char *text)
{
    fixture_text("number", text);
    return number_file_read_signed(fixture_path("number"), 1234);
}

TEST(numbers)
{
    CHECK_I64(number_of("0\n"), 0);
    CHECK_I64(number_of("516\n"), 516);
    CHECK_I64(number_of("516"), 516);
    CHECK_I64(number_of("-1\n"), -1);
    CHECK_I64(number_of("42 17 9\n"), 42);
    CHECK_I64(number_of("7x"), 7);
}

TEST(what_is_no_number_falls_back)
{
    CHECK_I64(number_of(""), 1234);
    CHECK_I64(number_of("\n"), 1234);
    CHECK_I64(number_of("-"), 1234);
    CHECK_I64(number_of("max\n"), 1234);
    CHECK_I64(number_file_read_signed("/nonexistent", 5), 5);
    CHECK_I64(number_file_read_signed("/proc", 6), 6);
}

TEST(the_largest_numbers_and_larger_ones)
{
    CHECK_I64(number_of("9223372036854775807\n"), INT64_MAX);
    CHECK_I64(number_of("-9223372036854775807\n"), -INT64_MAX);
    CHECK_I64(number_of("9223372036854775808\n"), INT64_MAX);
    CHECK_I64(number_of("18446744073709551615\n"), INT64_MAX);
    CHECK_I64(number_of("100000000000000000000000000000000000000000\n"), INT64_MAX);
}

TEST(negative_where_none_is_expected)
{
    fixture_text("number", "-1\n");
    CHECK_U64(number_file_read(fixture_path("number"), 99), 99);
    fixture_text("number", "12\n");
    CHECK_U64(number_file_read(fixture_path("number"), 99), 12);
    CHECK_U64(number_file_read("/nonexistent", 99), 99);
}

TEST(lists_of_numbers)
{
    uint64_t numbers[3], more[4];
    fixture_text("number", "42 17 9223372036854775808\n");
    CHECK(number_file_read_list(fixture_path("number"), numbers, 3));
    CHECK_U64(numbers[0], 42);
    CHECK_U64(numbers[1], 17);
    CHECK_U64(numbers[2], INT64_MAX);
    CHECK(number_file_read_list(fixture_path("number"), numbers, 2));
    CHECK(!number_file_read_list(fixture_path("number"), more, 4));
    fixture_text("number", "42 -17 5\n");
    CHECK(!number_file_read_list(fixture_path("number"), numbers, 3));
    CHECK(!number_file_read_list("/nonexistent", numbers, 1));
}
