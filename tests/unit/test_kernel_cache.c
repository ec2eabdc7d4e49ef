/* kernel_cache: one table for all, and nothing that somebody else could have put there. */
#include "kernel_cache.h"

#include <stdlib.h>
#include <sys/statfs.h>

#include "elf_fixture.h"

static const struct kernel_entry entries[] = {{0x10, 1}};
static const struct kernel_content content = {0x1000, entries, "\0one", 1, 5};
static const struct kernel_content other_content = {0x1000, entries, "\0two", 1, 5};

static char directory[64], path[128];

static void directory_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", directory);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", directory);
}

/* A directory in shared memory, empty. Skips the test where there is none. */
static void directory_make(void)
{
    if (directory[0] == '\0') {
        strcpy(directory, "/dev/shm/selfsample-unit-XXXXXX");
        if (mkdtemp(directory) == NULL) {
            directory[0] = '\0';
            SKIP("no shared memory to write to");
        }
        atexit(directory_remove);
        snprintf(path, sizeof path, "%s/%s%u", directory, KERNEL_CACHE_NAME, geteuid());
    }
    unlink(path);
}

static const char *name_found(const struct kernel_table *table)
{
    static struct kernel_function function;
    return kernel_table_find(table, 0x1010, &function) ? function.name : NULL;
}

/* Makes a table of that fingerprint and lets go of it. */
static void table_make(uint64_t fingerprint, const struct kernel_content *what)
{
    struct kernel_table table;
    REQUIRE(kernel_cache_create(&table, directory, fingerprint, what) == 0);
    CHECK_STR(name_found(&table), what->names + 1);
    kernel_table_close(&table);
}

static int error_of_opening(uint64_t fingerprint)
{
    struct kernel_table table;
    int error = kernel_cache_open(&table, directory, fingerprint);
    if (error == 0)
        kernel_table_close(&table);
    return error;
}

TEST(a_table_is_there_for_the_next)
{
    struct kernel_table table;
    struct stat status;
    directory_make();
    CHECK_I64(error_of_opening(7), -ENOENT);
    table_make(7, &content);
    REQUIRE(kernel_cache_open(&table, directory, 7) == 0);
    CHECK_STR(name_found(&table), "one");
    kernel_table_close(&table);
    CHECK_I64(error_of_opening(8), -ESTALE);
    REQUIRE(stat(path, &status) == 0);
    CHECK_U64(status.st_mode & 0777, 0600);
    CHECK_U64(status.st_nlink, 1);
}

TEST(a_stale_table_is_replaced_and_its_readers_keep_it)
{
    struct kernel_table old, new;
    directory_make();
    table_make(7, &content);
    REQUIRE(kernel_cache_open(&old, directory, 7) == 0);
    table_make(8, &other_content);
    REQUIRE(kernel_cache_open(&new, directory, 8) == 0);
    CHECK_STR(name_found(&old), "one");
    CHECK_STR(name_found(&new), "two");
    kernel_table_close(&old);
    kernel_table_close(&new);
}

TEST(without_a_fingerprint_nothing_is_shared)
{
    directory_make();
    table_make(0, &content);
    CHECK_I64(access(path, F_OK), -1);
    CHECK_I64(error_of_opening(0), -ENOENT);
}

TEST(a_directory_that_is_no_memory_or_not_there_is_left_alone)
{
    struct kernel_table table;
    struct statfs status;
    const char *const places[] = {fixture_dir(), "/nothing/here", "/proc"};
    for (unsigned i = 0; i < 3; i++) {
        if (statfs(places[i], &status) == 0 && status.f_type == 0x01021994 /* tmpfs */)
            continue;
        REQUIRE(kernel_cache_create(&table, places[i], 7, &content) == 0);
        CHECK_STR(name_found(&table), "one");
        kernel_table_close(&table);
        CHECK(kernel_cache_open(&table, places[i], 7) < 0);
    }
    CHECK(fixture_run("test -z \"$(ls)\""));
}

/* What others could leave in a directory that all may write to. */
TEST(what_is_not_ours_alone_is_refused)
{
    char aside[160];
    directory_make();
    snprintf(aside, sizeof aside, "%s/aside", directory);

    REQUIRE(mkfifo(path, 0600) == 0);
    CHECK_I64(error_of_opening(7), -EPERM); /* and does not wait for a writer */
    REQUIRE(unlink(path) == 0 && mkdir(path, 0700) == 0);
    CHECK_I64(error_of_opening(7), -EPERM);
    REQUIRE(rmdir(path) == 0);

    table_make(7, &content);
    CHECK_I64(error_of_opening(7), 0);
    for (unsigned bit = 01; bit <= 040; bit <<= 1) {
        REQUIRE(chmod(path, 0600 | bit) == 0);
        CHECK_I64(error_of_opening(7), -EPERM);
    }
    REQUIRE(chmod(path, 0600) == 0 && link(path, aside) == 0);
    CHECK_I64(error_of_opening(7), -EPERM);
    REQUIRE(unlink(path) == 0 && symlink(aside, path) == 0);
    CHECK_I64(error_of_opening(7), -ELOOP);
    table_make(7, &other_content); /* takes the link's place, not that of what it leads to */
    CHECK_I64(error_of_opening(7), 0);
    CHECK(unlink(aside) == 0);
    if (geteuid() != 0)
        SKIP("the owner of a file can only be changed by root");
    REQUIRE(chown(path, 1, 1) == 0);
    CHECK_I64(error_of_opening(7), -EPERM);
}

TEST(a_name_that_cannot_be_had_costs_nothing)
{
    directory_make();
    REQUIRE(mkdir(path, 0700) == 0);
    table_make(7, &content);
    REQUIRE(rmdir(path) == 0);
    CHECK_I64(error_of_opening(7), -ENOENT);
}

static uint64_t fingerprint_of(const char *boot_id, const char *modules)
{
    fixture_text("boot_id", boot_id);
    fixture_text("modules", modules);
    return kernel_fingerprint(fixture_path("boot_id"), fixture_path("modules"));
}

TEST(fingerprints)
{
    static const char modules[] = "ext4 1126400 2 - Live 0xffffffffc0a00000\n"
                                  "jbd2 188416 1 ext4, Live 0xffffffffc0900000 (E)\n";
    uint64_t known = fingerprint_of("an-id\n", modules);
    CHECK(known != 0);
    CHECK_U64(fingerprint_of("an-id\n", modules), known);
    CHECK_U64(fingerprint_of("an-id\n", "ext4 1126400 3 - Live 0xffffffffc0a00000\n"
                                        "jbd2 188416 2 ext4,xfs, Live 0xffffffffc0900000 (E)\n"),
              known);
    CHECK(fingerprint_of("another\n", modules) != known);
    CHECK(fingerprint_of("an-id\n", "") != known);
    CHECK(fingerprint_of("an-id\n", "ext4 1126400 2 - Live 0xffffffffc0b00000\n"
                                    "jbd2 188416 1 ext4, Live 0xffffffffc0900000 (E)\n") != known);
    CHECK(fingerprint_of("an-id\n", "ext5 1126400 2 - Live 0xffffffffc0a00000\n"
                                    "jbd2 188416 1 ext4, Live 0xffffffffc0900000 (E)\n") != known);
    CHECK_U64(kernel_fingerprint(fixture_path("boot_id"), "/nothing/here"),
              fingerprint_of("an-id\n", ""));
    CHECK_U64(kernel_fingerprint("/nothing/here", fixture_path("modules")), 0);
}
