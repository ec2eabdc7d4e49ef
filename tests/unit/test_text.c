/* Appending text: expected strings by hand, and by printf of libc where a number is long. */
#include "check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "text.h"

static char buffer[128];

static struct text fresh(void)
{
    memset(buffer, 'x', sizeof buffer);
    return text_over(buffer, sizeof buffer);
}

TEST(starts_empty)
{
    struct text text = fresh();
    CHECK_STR(buffer, "");
    CHECK_U64(text.length, 0);
    CHECK(!text.cut);
}

TEST(appends_strings_bytes_and_characters)
{
    struct text text = fresh();
    text_put(&text, "ab");
    text_put_bytes(&text, "cdef", 2);
    text_put_char(&text, '!');
    text_put(&text, "");
    CHECK_STR(buffer, "abcd!");
    CHECK_U64(text.length, 5);
}

TEST(cuts_what_does_not_fit)
{
    char guarded[6] = "....#";
    struct text text = text_over(guarded, 4);
    text_put(&text, "abc");
    CHECK(!text.cut);
    text_put_char(&text, 'd');
    CHECK(text.cut);
    CHECK_STR(guarded, "abc");
    CHECK_U64(text.length, 3);
    CHECK(guarded[4] == '#');
}

TEST(size_one_holds_nothing)
{
    char only = 'x';
    struct text text = text_over(&only, 1);
    text_put_u64(&text, 7);
    CHECK(only == '\0');
    CHECK(text.cut);
}

TEST(decimal_numbers)
{
    const uint64_t values[] = {0, 9, 10, 4294967296u, UINT64_MAX};
    for (unsigned i = 0; i < sizeof values / sizeof *values; i++) {
        char expected[32];
        snprintf(expected, sizeof expected, "%" PRIu64, values[i]);
        struct text text = fresh();
        text_put_u64(&text, values[i]);
        CHECK_STR(buffer, expected);
    }
}

TEST(signed_numbers)
{
    struct text text = fresh();
    text_put_i64(&text, 0);
    text_put_char(&text, ' ');
    text_put_i64(&text, -1);
    text_put_char(&text, ' ');
    text_put_i64(&text, INT64_MIN);
    text_put_char(&text, ' ');
    text_put_i64(&text, INT64_MAX);
    CHECK_STR(buffer, "0 -1 -9223372036854775808 9223372036854775807");
}

TEST(padded_numbers)
{
    struct text text = fresh();
    text_put_padded(&text, 7, 2);
    text_put_padded(&text, 123, 2);
    text_put_padded(&text, 0, 0);
    text_put_char(&text, ' ');
    text_put_padded(&text, 5, 99);
    CHECK_STR(buffer, "071230 00000000000000000005");
}

TEST(hexadecimal_numbers)
{
    struct text text = fresh();
    text_put_hex(&text, 0);
    text_put_char(&text, ' ');
    text_put_hex(&text, 0x1a40);
    text_put_char(&text, ' ');
    text_put_hex(&text, UINT64_MAX);
    CHECK_STR(buffer, "0 1a40 ffffffffffffffff");
}

TEST(hexadecimal_bytes)
{
    const uint8_t bytes[] = {0x00, 0x0a, 0xf0, 0x9c};
    struct text text = fresh();
    text_put_hex_bytes(&text, bytes, sizeof bytes);
    CHECK_STR(buffer, "000af09c");
    text_put_hex_bytes(&text, bytes, 0);
    CHECK_U64(text.length, 8);
}

TEST(equal_strings)
{
    CHECK(text_equal("", ""));
    CHECK(text_equal("[vdso]", "[vdso]"));
    CHECK(!text_equal("a", "b"));
    CHECK(!text_equal("ab", "abc"));
    CHECK(!text_equal("abc", "ab"));
    CHECK(!text_equal("", "a"));
}

TEST(fixed_point_numbers)
{
    struct text text = fresh();
    text_put_fixed(&text, 1042, 3);
    text_put_char(&text, ' ');
    text_put_fixed(&text, 7, 2);
    text_put_char(&text, ' ');
    text_put_fixed(&text, 12, 0);
    text_put_char(&text, ' ');
    text_put_fixed(&text, 1000000001, 10);
    CHECK_STR(buffer, "1.042 0.07 12 1.000000001");
}

/* The words are those of libc, the names those of errno.h: strerrorname_np knows both. */
TEST(error_words_are_those_of_libc)
{
    const int errors[] = {EPERM,  ENOENT, EIO,    EBADF,        EAGAIN, ENOMEM, EACCES, EEXIST,
                          EXDEV,  EISDIR, EINVAL, EMFILE,       EFBIG,  ENOSPC, EROFS,  EPIPE,
                          ENOSYS, ELOOP,  EDQUOT, ENAMETOOLONG, ENFILE, ESTALE, ENODEV, EOPNOTSUPP};
    for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++) {
        char expected[128];
        snprintf(expected, sizeof expected, "%s (%s)", strerror(errors[i]),
                 errors[i] == EOPNOTSUPP ? "EOPNOTSUPP" : strerrorname_np(errors[i]));
        struct text text = fresh();
        text_put_error(&text, errors[i]);
        CHECK_STR(buffer, expected);
    }
}

TEST(unknown_errors_are_numbers)
{
    struct text text = fresh();
    text_put_error(&text, 4095);
    text_put_char(&text, ' ');
    text_put_error(&text, 0);
    CHECK_STR(buffer, "error 4095 error 0");
}
