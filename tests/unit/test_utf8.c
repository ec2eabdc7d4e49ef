/* UTF-8: characters at the bounds of what RFC 3629 allows, and just beyond. */
#include "check.h"

#include "utf8.h"

static size_t bytes_of(const char *text)
{
    return utf8_bytes((const unsigned char *)text);
}

TEST(characters)
{
    CHECK_U64(bytes_of("a"), 1);
    CHECK_U64(bytes_of("\x7f"), 1);
    CHECK_U64(bytes_of("\xc2\x80"), 2);
    CHECK_U64(bytes_of("\xdf\xbf"), 2);
    CHECK_U64(bytes_of("\xe0\xa0\x80"), 3);
    CHECK_U64(bytes_of("\xed\x9f\xbf"), 3);
    CHECK_U64(bytes_of("\xee\x80\x80"), 3);
    CHECK_U64(bytes_of("\xf0\x90\x80\x80"), 4);
    CHECK_U64(bytes_of("\xf4\x8f\xbf\xbf"), 4);
}

TEST(what_is_none)
{
    static const char *const wrong[] = {
        "\x80",
        "\xbf",
        "\xc0\x80",
        "\xc1\xbf",
        "\xc2",
        "\xc2"
        "a",
        "\xe0\x9f\xbf",
        "\xed\xa0\x80",
        "\xe2\x82",
        "\xe2\x82"
        "a",
        "\xf0\x8f\xbf\xbf",
        "\xf4\x90\x80\x80",
        "\xf5\x80\x80\x80",
        "\xff",
        "\xf0\x90\x80",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        CHECK_U64(bytes_of(wrong[i]), 0);
        CHECK(!utf8_is_clean(wrong[i]));
    }
}

TEST(texts_are_cleaned)
{
    char text[] = "gr\xc3\xb6\xdf\x65 \xff\xe2\x82\xac\xe2\x82";
    CHECK(!utf8_is_clean(text));
    utf8_clean(text);
    CHECK_STR(text, "gr\xc3\xb6?e ?\xe2\x82\xac??");
    CHECK(utf8_is_clean(text));
    CHECK(utf8_is_clean(""));
}
