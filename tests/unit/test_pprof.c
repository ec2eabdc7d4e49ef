/*
 * pprof files, byte by byte. What is expected was put together by hand from the encoding of
 * protocol buffers (a tag is number * 8 + type; 0: a varint, 2: a length and so many bytes) and the
 * numbers of pprof's fields.
 */
#include "unpack_fixture.h"

#include <errno.h>

#include "arena.h"
#include "pprof.h"

static struct arena arena;
static struct pprof pprof;

static void begin(void)
{
    const struct pprof_facts facts = {
        .began_ns = 1, .duration_ns = 300, .period_ns = 2, .comment = "c"};
    arena_init(&arena, 0);
    REQUIRE(pprof_begin(&pprof, &facts, unpack_sink(), &arena) == 0);
}

/* Strings 0 to 8, that of the comment, and the header. */
static const char preface[] = "\x32\x00\x32\x07samples\x32\x05"
                              "count\x32\x03"
                              "cpu\x32\x0bnanoseconds\x32\x06thread\x32\x03tid\x32\x05label"
                              "\x32\x07program\x32\x01"
                              "c"
                              "\x0a\x04\x08\x01\x10\x02"     /* 1: type samples, unit count */
                              "\x0a\x04\x08\x03\x10\x04"     /* 1: type cpu, unit nanoseconds */
                              "\x48\x01\x50\xac\x02"         /* 9: time; 10: duration */
                              "\x5a\x04\x08\x03\x10\x04\x60" /* 11: the period's type; 12: it */
                              "\x02\x6a\x01\x09";            /* 13: the comment */

static void check_rest(const char *expected, size_t expected_bytes)
{
    size_t length, before = sizeof preface - 1;
    pprof_end(&pprof);
    arena_destroy(&arena);
    unsigned char *bytes = unpacked(&length);
    REQUIRE(length >= before);
    CHECK(memcmp(bytes, preface, before) == 0);
    CHECK_U64(length - before, expected_bytes);
    if (length - before == expected_bytes)
        CHECK(memcmp(bytes + before, expected, expected_bytes) == 0);
    free(bytes);
}

TEST(an_empty_profile)
{
    begin();
    check_rest("", 0);
}

TEST(functions_and_locations)
{
    static const char expected[] =
        "\x32\x04main\x2a\x04\x08\x01\x10\x0a"                     /* function 1: string 10 */
        "\x22\x0c\x08\x07\x10\x03\x18\x80\x80\x01\x22\x02\x08\x01" /* location 7 */
        "\x22\x06\x08\x08\x22\x02\x08\x01"                         /* 8: no mapping, address 0 */
        "\x22\x0a\x08\x09\x22\x02\x08\x02\x22\x02\x08\x01";        /* 9: 2 inlined into 1 */
    begin();
    pprof_function(&pprof, 1, "main");
    pprof_location(&pprof, 7, 3, 0x4000, (uint64_t[]){1}, 1);
    pprof_location(&pprof, 8, 0, 0, (uint64_t[]){1}, 1);
    pprof_location(&pprof, 9, 0, 0, (uint64_t[]){2, 1}, 2);
    check_rest(expected, sizeof expected - 1);
}

TEST(mappings)
{
    static const char expected[] = "\x32\x02/x\x32\x04"
                                   "ab01"
                                   "\x1a\x11\x08\x01\x10\x80\x20\x18\x80\x40\x20\x80\x10\x28\x0a"
                                   "\x30\x0b\x38\x01"
                                   "\x32\x02/y\x1a\x0a\x08\x02\x10\x01\x18\x02\x28\x0c\x38\x01";
    begin();
    pprof_mapping(&pprof, &(struct pprof_mapping){.id = 1,
                                                  .start = 0x1000,
                                                  .limit = 0x2000,
                                                  .file_offset = 0x800,
                                                  .file = "/x",
                                                  .build_id = "ab01"});
    pprof_mapping(&pprof, &(struct pprof_mapping){
                              .id = 2, .start = 1, .limit = 2, .file = "/y", .build_id = ""});
    check_rest(expected, sizeof expected - 1);
}

TEST(samples)
{
    static const char expected[] = "\x12\x16\x0a\x03\x07\x80\x01" /* locations 7, 128 */
                                   "\x12\x03\x05\xe8\x07"         /* values 5, 1000 */
                                   "\x1a\x04\x08\x05\x10\x0a"     /* thread: string 10 */
                                   "\x1a\x04\x08\x06\x18\x2a"     /* tid: 42 */
                                   "\x12\x04\x12\x02\x00\x00";    /* nothing, of no weight */
    begin();
    pprof_sample(&pprof, (uint64_t[]){7, 128}, 2, 5, 1000,
                 (struct pprof_label[]){{.key = PPROF_THREAD, .string = 10},
                                        {.key = PPROF_TID, .number = 42}},
                 2);
    pprof_sample(&pprof, NULL, 0, 0, 0, NULL, 0);
    check_rest(expected, sizeof expected - 1);
}

/* The format wants UTF-8. */
TEST(strings_are_cleaned)
{
    static const char expected[] = "\x32\x03\xc3\xb6?\x32\x02ok";
    begin();
    CHECK_U64(pprof_string(&pprof, "\xc3\xb6\xff"), 10);
    CHECK_U64(pprof_string(&pprof, "ok"), 11);
    check_rest(expected, sizeof expected - 1);
}

TEST(too_little_memory)
{
    const struct pprof_facts facts = {.comment = ""};
    arena_init(&arena, 0);
    arena.fail_countdown = 2;
    CHECK_I64(pprof_begin(&pprof, &facts, (struct gzip_sink){0}, &arena), -ENOMEM);
    arena_destroy(&arena);
}
