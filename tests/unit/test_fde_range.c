/* fde_range and cfi_hdr against readelf's dump of the same frames. */
#include "fde_range.h"

#include <errno.h>

#include "elf_fixture.h"

static struct arena arena;

static const char source[] =
    "int one(int x) { return x + 1; }\n"
    "int two(int (*f)(int), int x) { char b[64]; b[x & 63] = 1; return f(b[(x + 1) & 63]) + 1; }\n"
    "int three(int (*f)(int), int x) { return f(f(x)) + f(x); }\n";

static void check_around(const struct fde_ranges *ranges, uint64_t start, uint64_t end)
{
    const uint64_t probes[] = {start, start + (end - start) / 2, end - 1};
    for (unsigned i = 0; i < 3; i++) {
        uint64_t found_start = 0, found_end = 0;
        CHECK(fde_range_find(ranges, probes[i], &found_start, &found_end));
        CHECK_U64(found_start, start);
        CHECK_U64(found_end, end);
    }
}

/* Looks up every FDE that readelf tells of; how many there were. */
static unsigned check_against_readelf(const char *path, int *error)
{
    struct elf_file file;
    struct fde_ranges ranges;
    char line[512];
    unsigned seen = 0;
    int fd = fixture_open(&file, path, &arena, error);
    REQUIRE(fd >= 0);
    *error = fde_ranges_open(&ranges, &file, &arena);
    FILE *output = fixture_output("readelf --debug-dump=frames '%s' 2>/dev/null", path);
    while (fgets(line, sizeof line, output) != NULL) {
        unsigned long start, end;
        const char *pc = strstr(line, " pc=");
        if (pc == NULL || sscanf(pc, " pc=%lx..%lx", &start, &end) != 2 || start == end)
            continue;
        seen++;
        check_around(&ranges, start, end);
    }
    pclose(output);
    close(fd);
    return seen;
}

static unsigned check_built(const char *flags, int *error)
{
    fixture_text("source.c", source);
    REQUIRE(fixture_run("${CC:-cc} -shared -fPIC -O1 -nostdlib %s -o built.so source.c", flags));
    return check_against_readelf(fixture_path("built.so"), error);
}

TEST(every_function_of_libc)
{
    int error;
    CHECK(check_against_readelf(fixture_library("libc.so.6"), &error) > 1000);
    CHECK_I64(error, 0);
}

TEST(every_function_of_libstdcxx)
{
    int error;
    CHECK(check_against_readelf(fixture_library("libstdc++.so.6"), &error) > 1000);
    CHECK_I64(error, 0);
}

TEST(a_file_without_a_search_table)
{
    int error;
    CHECK_U64(check_built("-Wl,--no-eh-frame-hdr", &error), 3);
    CHECK_I64(error, 0);
}

TEST(a_file_with_debug_frame_only)
{
    int error;
    CHECK_U64(check_built("-g -fno-asynchronous-unwind-tables -fno-unwind-tables", &error), 3);
    CHECK_I64(error, 0);
}

TEST(a_file_without_any_frames)
{
    struct elf_file file;
    struct fde_ranges ranges;
    uint64_t start, end;
    int error;
    fixture_text("source.c", source);
    REQUIRE(fixture_run("${CC:-cc} -shared -fPIC -O1 -nostdlib -fno-asynchronous-unwind-tables "
                        "-fno-unwind-tables -o bare.so source.c"));
    int fd = fixture_open(&file, fixture_path("bare.so"), &arena, &error);
    REQUIRE(fd >= 0);
    CHECK_I64(fde_ranges_open(&ranges, &file, &arena), -ENOENT);
    CHECK(!fde_range_find(&ranges, fixture_symbol("bare.so", "two"), &start, &end));
    close(fd);
}

/* A gap between functions, and what lies before the first and behind the last, is nobody's. */
TEST(an_address_between_functions)
{
    static const char *const flags[] = {"", "-Wl,--no-eh-frame-hdr"};
    for (unsigned i = 0; i < 2; i++) {
        struct elf_file file;
        struct fde_ranges ranges;
        uint64_t start, end;
        int error;
        fixture_text("gap.s", ".text\n.globl f, g\n.skip 32\n"
                              "f: .cfi_startproc\n.byte 0\n.cfi_endproc\n.skip 32\n"
                              "g: .cfi_startproc\n.byte 0\n.cfi_endproc\n.skip 32\n");
        REQUIRE(fixture_run("${CC:-cc} -shared -nostdlib %s -o gap.so gap.s", flags[i]));
        int fd = fixture_open(&file, fixture_path("gap.so"), &arena, &error);
        REQUIRE(fd >= 0);
        CHECK_I64(fde_ranges_open(&ranges, &file, &arena), 0);
        uint64_t f = fixture_symbol("gap.so", "f"), g = fixture_symbol("gap.so", "g");
        check_around(&ranges, f, f + 1);
        check_around(&ranges, g, g + 1);
        CHECK(!fde_range_find(&ranges, f - 1, &start, &end));
        CHECK(!fde_range_find(&ranges, f + 1, &start, &end));
        CHECK(!fde_range_find(&ranges, g - 1, &start, &end));
        CHECK(!fde_range_find(&ranges, g + 1, &start, &end));
        CHECK(!fde_range_find(&ranges, 0, &start, &end));
        CHECK(!fde_range_find(&ranges, UINT64_MAX, &start, &end));
        close(fd);
    }
}

TEST(no_memory_for_the_index_is_an_error)
{
    struct elf_file file;
    struct arena failing;
    int error;
    REQUIRE(check_built("-Wl,--no-eh-frame-hdr", &error) == 3);
    int fd = fixture_open(&file, fixture_path("built.so"), &arena, &error);
    REQUIRE(fd >= 0);
    arena_init(&failing, 0);
    for (int nth = 1; nth <= 4; nth++) {
        struct fde_ranges ranges;
        uint64_t start, end;
        failing.fail_countdown = nth;
        CHECK(fde_ranges_open(&ranges, &file, &failing) != 0);
        CHECK(!fde_range_find(&ranges, fixture_symbol("built.so", "two"), &start, &end));
    }
    close(fd);
    arena_destroy(&failing);
}
