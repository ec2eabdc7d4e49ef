/* gzip: streams of many sizes, in pieces of many sizes, unpacked by the program of that name. */
#include "unpack_fixture.h"

#include "arena.h"

static struct arena arena;

static unsigned char byte_at(size_t i)
{
    return (unsigned char)(i % 7 == 0 ? (i * 2654435761u) >> 13 : i / 100);
}

/* BYTES of them in pieces of up to PIECE_MAX. */
static void check_stream(size_t bytes, size_t piece_max)
{
    static unsigned char piece[70000];
    arena_init(&arena, 0);
    struct gzip *gzip = gzip_open(&arena, unpack_sink());
    REQUIRE(gzip != NULL);
    for (size_t at = 0; at < bytes;) {
        size_t length = 1 + (size_t)random() % piece_max;
        length = length < bytes - at ? length : bytes - at;
        for (size_t i = 0; i < length; i++)
            piece[i] = byte_at(at + i);
        gzip_put(gzip, piece, length);
        at += length;
    }
    gzip_close(gzip);
    arena_destroy(&arena);
    size_t length;
    unsigned char *back = unpacked(&length);
    CHECK_U64(length, bytes);
    size_t wrong = 0;
    for (size_t i = 0; i < length; i++)
        wrong += back[i] != byte_at(i);
    CHECK_U64(wrong, 0);
    free(back);
}

TEST(streams_come_back)
{
    check_stream(0, 1);
    check_stream(1, 1);
    check_stream(16384, 16384);
    check_stream(16385, 5);
    check_stream(300000, 70000);
    check_stream(3000000, 40);
}

TEST(too_little_memory)
{
    arena_init(&arena, 128 * 1024);
    CHECK(gzip_open(&arena, (struct gzip_sink){0}) == NULL);
    arena_destroy(&arena);
    for (int nth = 1; nth < 6; nth++) {
        arena_init(&arena, 0);
        arena.fail_countdown = nth;
        CHECK(gzip_open(&arena, (struct gzip_sink){0}) == NULL);
        arena_destroy(&arena);
    }
}
