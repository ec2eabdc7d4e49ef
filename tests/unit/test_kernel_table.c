/* kernel_table: what is written is found again, and no file, however damaged, does harm. */
#include "kernel_table.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "elf_fixture.h"

#define BASE        0xffffffff01000000u
#define FINGERPRINT 0x1234567890abcdefu

static const char names[] = "\0first\0second\0third";
enum { FIRST = 1, SECOND = 7, THIRD = 14 };

static const struct kernel_entry entries[] = {
    {0x1000, FIRST}, {0x1010, SECOND}, {0x2000, 0}, {0xfffffff0, THIRD}};

static const struct kernel_content content = {BASE, entries, names, 4, sizeof names};

static int file_open(void)
{
    int fd = memfd_create("table", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    return fd;
}

static int table_written(struct kernel_table *table, const struct kernel_content *what)
{
    int fd = file_open();
    CHECK_I64(kernel_table_write(fd, FINGERPRINT, what), 0);
    return kernel_table_open(table, fd, FINGERPRINT);
}

static void check_find(const struct kernel_table *table, uint64_t address, const char *name,
                       uint64_t start)
{
    struct kernel_function function;
    bool found = kernel_table_find(table, address, &function);
    CHECK_STR(found ? function.name : NULL, name);
    if (found) {
        CHECK_U64(function.address, start);
        CHECK_U64(function.name_length, strlen(name));
    }
}

TEST(an_entry_covers_what_lies_up_to_the_next)
{
    struct kernel_table table;
    REQUIRE(table_written(&table, &content) == 0);
    check_find(&table, 0, NULL, 0);
    check_find(&table, BASE + 0xfff, NULL, 0);
    check_find(&table, BASE + 0x1000, "first", BASE + 0x1000);
    check_find(&table, BASE + 0x100f, "first", BASE + 0x1000);
    check_find(&table, BASE + 0x1010, "second", BASE + 0x1010);
    check_find(&table, BASE + 0x1fff, "second", BASE + 0x1010);
    check_find(&table, BASE + 0x2000, NULL, 0);
    check_find(&table, BASE + 0xffffffef, NULL, 0);
    kernel_table_close(&table);
}

TEST(a_base_further_down_leaves_room_above)
{
    struct kernel_content low = content;
    struct kernel_table table;
    low.base = 0x1000;
    REQUIRE(table_written(&table, &low) == 0);
    check_find(&table, 0x1000 + 0xffffffffull, "third", 0x1000 + 0xfffffff0ull);
    check_find(&table, 0x1000 + 0x100000000ull, NULL, 0);
    kernel_table_close(&table);
}

/* Of 100,000 entries each is found by its first and its last byte: all turns of the search. */
TEST(a_large_table)
{
    enum { COUNT = 100000 };
    static struct kernel_entry many[COUNT];
    static char texts[COUNT * 8];
    struct kernel_table table;
    uint32_t used = 1;
    for (uint32_t i = 0; i < COUNT; i++) {
        many[i] = (struct kernel_entry){i * 16, used};
        used += (uint32_t)sprintf(texts + used, "f%x", i) + 1;
    }
    const struct kernel_content large = {BASE, many, texts, COUNT, used};
    REQUIRE(table_written(&table, &large) == 0);
    for (uint32_t i = 0; i < COUNT; i += 7) {
        char name[16];
        sprintf(name, "f%x", i);
        check_find(&table, BASE + i * 16, name, BASE + i * 16);
        check_find(&table, BASE + i * 16 + 15, name, BASE + i * 16);
    }
    kernel_table_close(&table);
}

TEST(another_fingerprint_is_stale)
{
    struct kernel_table table;
    int fd = file_open();
    CHECK_I64(kernel_table_write(fd, FINGERPRINT, &content), 0);
    CHECK_I64(kernel_table_open(&table, fd, FINGERPRINT + 1), -ESTALE);
    close(fd);
}

TEST(a_file_of_another_size_is_none)
{
    struct kernel_table table;
    int fd = file_open();
    CHECK_I64(kernel_table_open(&table, fd, FINGERPRINT), -EBADMSG);
    CHECK_I64(kernel_table_write(fd, FINGERPRINT, &content), 0);
    off_t bytes = lseek(fd, 0, SEEK_CUR);
    CHECK_I64(bytes, 32 + 4 * 8 + sizeof names);
    for (off_t size = 0; size <= bytes + 1; size++) {
        CHECK_I64(ftruncate(fd, size), 0);
        CHECK_I64(kernel_table_open(&table, fd, FINGERPRINT), -EBADMSG);
        if (size >= 32)
            break; /* what was cut off is zeros from now on */
    }
    CHECK_I64(kernel_table_open(&table, -1, FINGERPRINT), -EBADMSG);
    close(fd);
}

TEST(a_file_that_shrinks_later_has_no_names)
{
    struct kernel_table table;
    REQUIRE(table_written(&table, &content) == 0);
    CHECK_I64(ftruncate(table.fd, 32 + 4 * 8 + 3), 0);
    check_find(&table, BASE + 0x1000, NULL, 0); /* "first" has lost its end */
    CHECK_I64(ftruncate(table.fd, 33), 0);
    check_find(&table, BASE + 0x1000, NULL, 0);
    kernel_table_close(&table);
}

TEST(names_that_are_out_of_bounds_or_have_no_end)
{
    static const struct kernel_entry bad[] = {
        {0x0, sizeof names}, {0x10, UINT32_MAX}, {0x20, THIRD}, {0x30, THIRD + 5}};
    struct kernel_content damaged = {BASE, bad, names, 4, sizeof names - 1};
    struct kernel_table table;
    REQUIRE(table_written(&table, &damaged) == 0);
    for (unsigned i = 0; i < 4; i++)
        check_find(&table, BASE + i * 16, NULL, 0);
    kernel_table_close(&table);
}

/* All bytes at random, the header's sizes but not its magic and fingerprint among them. */
TEST(random_files)
{
    uint32_t state = 1;
    for (unsigned round = 0; round < 300; round++) {
        static uint8_t bytes[32 + 600 * 8 + 500];
        struct kernel_header header = {"SSKSYMS1", FINGERPRINT, BASE, 600, 500};
        struct kernel_table table;
        int fd = file_open();
        for (size_t i = 0; i < sizeof bytes; i++) {
            state = state * 1664525 + 1013904223;
            bytes[i] = i < 32 + 600 * 8 && i % 4 == 3 ? 0 : (uint8_t)(state >> 24);
        }
        if (round % 3 != 0)
            memcpy(bytes, &header, round % 3 == 1 ? sizeof header : 24);
        REQUIRE(write(fd, bytes, sizeof bytes) == (ssize_t)sizeof bytes);
        if (kernel_table_open(&table, fd, FINGERPRINT) == 0) {
            for (uint32_t at = 0; at < 1u << 24; at += 9973) {
                struct kernel_function function;
                if (kernel_table_find(&table, BASE + at, &function))
                    CHECK(function.name_length < KERNEL_TABLE_NAME_BYTES_MAX &&
                          function.name[function.name_length] == '\0');
            }
        } else {
            CHECK(round % 3 != 1);
        }
        close(fd);
    }
}

TEST(a_write_that_fails)
{
    CHECK_I64(kernel_table_write(-1, FINGERPRINT, &content), -EBADF);
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        SKIP("no /dev/full");
    CHECK_I64(kernel_table_write(fd, FINGERPRINT, &content), -ENOSPC);
    close(fd);
}
