/*
 * cfi_table: the made-up section is given back to readelf, which must read in it the same functions
 * and the same unwind rules as in the original.
 */
#include "cfi_table.h"

#include <errno.h>

#include "arch_fixture.h"
#include "elf_fixture.h"

#define BIAS   0x7f0000000000u
#define SHADOW (BIAS + 0x10000000u)

static struct arena keep, scratch;

static const char functions[] =
    "#include <stdlib.h>\n"
    "int one(int x) { return x + 1; }\n"
    "int two(int (*f)(int), int x) { char b[64]; b[x & 63] = 1; return f(b[(x + 1) & 63]) + 1; }\n"
    "int three(int n) { char *b = __builtin_alloca(n); return atoi(b) + atoi(b + 1); }\n";

static const char restorer[] =
    ".text\nrestorer: .cfi_startproc\n.cfi_signal_frame\nnop\n.cfi_endproc\n";

static void build(const char *flags, struct elf_file *file, struct cfi_table *table, int expected)
{
    int error;
    fixture_text("functions.c", functions);
    fixture_text("restorer.s", restorer);
    REQUIRE(fixture_run("${CC:-cc} -shared -fPIC -O1 -nostdlib -o built.so functions.c %s", flags));
    int fd = fixture_open(file, fixture_path("built.so"), &keep, &error);
    REQUIRE(fd >= 0);
    CHECK(cfi_table_needed(file));
    CHECK_I64(cfi_table_build(table, file, BIAS, SHADOW, &keep, &scratch), expected);
    close(fd);
}

/* What readelf makes of a file's frames: "address CFA registers...", without the bias, sorted. */
static bool rules_write(const char *file, const char *out)
{
    return fixture_run("readelf --debug-dump=frames-interp %s | grep -E '^[0-9a-f]{16} [a-z]' | "
                       "cut -c9- | sort -u > %s",
                       file, out);
}

/* The table becomes the .eh_frame of an object. */
static void check_same_rules(const struct cfi_table *table)
{
    fixture_write("table.bin", table->bytes, table->bytes_count);
    REQUIRE(fixture_run("objcopy -I binary " ARCH_OBJCOPY_TARGET " "
                        "--rename-section .data=.eh_frame,alloc,readonly,data,contents "
                        "table.bin table.o"));
    REQUIRE(rules_write("table.o", "table.rules") && rules_write("built.so", "built.rules"));
    CHECK(fixture_run("test $(wc -l < built.rules) -gt 8"));
    CHECK(fixture_run("cmp built.rules table.rules"));
}

static void check_entries(const struct elf_file *file, const struct cfi_table *table, size_t count)
{
    static const char *const names[] = {"one", "two", "three", "restorer"};
    CHECK(fixture_run("test $(readelf --debug-dump=frames built.so | grep -c ' FDE ') -eq %zu",
                      table->entry_count));
    CHECK_U64(table->shadow_base, SHADOW);
    for (size_t i = 0; i < table->entry_count; i++) {
        const struct cfi_table_entry *entry = &table->entries[i];
        CHECK(i == 0 || entry[-1].start < entry->start);
        REQUIRE(entry->fde >= 0 && (size_t)entry->fde + 24 <= table->bytes_count);
        uint64_t start;
        memcpy(&start, table->bytes + entry->fde + 8, sizeof start);
        CHECK_U64(start, SHADOW + (uint64_t)(int64_t)entry->start);
        CHECK(elf_file_is_code(file, start - BIAS));
    }
    for (size_t i = 0; i < count; i++) {
        uint64_t start = BIAS + fixture_symbol("built.so", names[i]);
        bool found = false;
        for (size_t k = 0; k < table->entry_count; k++)
            found = found || SHADOW + (uint64_t)(int64_t)table->entries[k].start == start;
        CHECK(found);
    }
}

TEST(eh_frame_without_a_search_table)
{
    struct elf_file file;
    struct cfi_table table;
    build("restorer.s -Wl,--no-eh-frame-hdr", &file, &table, 0);
    check_entries(&file, &table, 4);
    check_same_rules(&table);
    CHECK(fixture_run("readelf --debug-dump=frames table.o | grep -q '\"zRS\"'"));
    CHECK_U64(scratch.mapped_bytes, 0);
}

TEST(debug_frame_only)
{
    struct elf_file file;
    struct cfi_table table;
    build("-g -fno-asynchronous-unwind-tables -fno-unwind-tables", &file, &table, 0);
    check_entries(&file, &table, 3);
    check_same_rules(&table);
}

/* One function is in both sections, the other in .debug_frame alone: each is there once. */
TEST(debug_frame_beside_eh_frame)
{
    struct elf_file file;
    struct cfi_table table;
    int error;
    fixture_text("both.s", ".cfi_sections .eh_frame, .debug_frame\n.text\n.globl f\n"
                           "f: .cfi_startproc\nnop\n.cfi_adjust_cfa_offset 8\nret\n.cfi_endproc\n");
    fixture_text("debug.s", ".cfi_sections .debug_frame\n.text\n.globl g\n"
                            "g: .cfi_startproc\nnop\nret\n.cfi_endproc\n");
    REQUIRE(fixture_run(
        "${CC:-cc} -shared -nostdlib -Wl,--no-eh-frame-hdr -o built.so both.s debug.s"));
    int fd = fixture_open(&file, fixture_path("built.so"), &keep, &error);
    REQUIRE(fd >= 0);
    CHECK_I64(cfi_table_build(&table, &file, BIAS, SHADOW, &keep, &scratch), 0);
    close(fd);
    REQUIRE(table.entry_count == 2);
    CHECK_U64(SHADOW + (uint64_t)(int64_t)table.entries[0].start,
              BIAS + fixture_symbol("built.so", "f"));
    CHECK_U64(SHADOW + (uint64_t)(int64_t)table.entries[1].start,
              BIAS + fixture_symbol("built.so", "g"));
}

/* An entry of .debug_frame that begins before one of .eh_frame and reaches into it is dropped. */
TEST(debug_frame_across_eh_frame)
{
    struct elf_file file;
    struct cfi_table table;
    int error;
    fixture_text("across.s", ".text\n.skip 8\nf: .cfi_startproc\n.skip 8\n.cfi_endproc\n"
                             ".section .debug_frame\n"
                             ".long 1f - 0f\n0: .long -1\n.byte 1, 0, 1, 0x78, 16\n.zero 7\n1:\n"
                             ".long 3f - 2f\n2: .long 0\n.quad f - 8, 12\n3:\n"
                             ".long 5f - 4f\n4: .long 0\n.quad f - 8, 8\n5:\n");
    REQUIRE(fixture_run("${CC:-cc} -shared -nostdlib -Wl,--no-eh-frame-hdr -o built.so across.s"));
    int fd = fixture_open(&file, fixture_path("built.so"), &keep, &error);
    REQUIRE(fd >= 0);
    CHECK_I64(cfi_table_build(&table, &file, BIAS, SHADOW, &keep, &scratch), 0);
    close(fd);
    uint64_t f = BIAS + fixture_symbol("built.so", "f"), start;
    REQUIRE(table.entry_count == 1);
    CHECK_U64(SHADOW + (uint64_t)(int64_t)table.entries[0].start, f);
    memcpy(&start, table.bytes + table.entries[0].fde + 8, sizeof start);
    CHECK_U64(start, f);
}

TEST(what_is_too_far_away_is_left_out)
{
    struct elf_file file;
    struct cfi_table table;
    int error;
    build("-Wl,--no-eh-frame-hdr", &file, &table, 0);
    int fd = fixture_open(&file, fixture_path("built.so"), &keep, &error);
    REQUIRE(fd >= 0);
    CHECK_I64(cfi_table_build(&table, &file, BIAS, BIAS + 0x100000000u, &keep, &scratch), -ENOENT);
    close(fd);
}

TEST(no_frames_no_table)
{
    struct elf_file file;
    struct cfi_table table;
    build("-fno-asynchronous-unwind-tables -fno-unwind-tables", &file, &table, -ENOENT);
}

TEST(a_file_that_needs_none)
{
    struct elf_file file;
    int error, fd = fixture_open(&file, fixture_library("libc.so.6"), &keep, &error);
    REQUIRE(fd >= 0);
    CHECK(!cfi_table_needed(&file));
    close(fd);
}

TEST(every_allocation_may_fail)
{
    struct elf_file file;
    struct cfi_table table;
    int error, failures = 0;
    build("-Wl,--no-eh-frame-hdr", &file, &table, 0);
    int fd = fixture_open(&file, fixture_path("built.so"), &keep, &error);
    REQUIRE(fd >= 0);
    struct arena *const failing[] = {&keep, &scratch};
    for (unsigned which = 0; which < 2; which++) {
        for (int nth = 1; nth < 20; nth++) {
            struct arena_mark before = arena_mark(&keep);
            failing[which]->fail_countdown = nth;
            error = cfi_table_build(&table, &file, BIAS, SHADOW, &keep, &scratch);
            failing[which]->fail_countdown = 0;
            CHECK_U64(scratch.mapped_bytes, 0);
            if (error == 0)
                continue;
            struct arena_mark after = arena_mark(&keep);
            CHECK(before.chunk == after.chunk && before.used == after.used);
            CHECK_U64(table.entry_count, 0);
            failures++;
        }
    }
    CHECK_I64(failures, 2 + 5);
    close(fd);
}
