/* elf_pages against pread(2) of the same files. */
#include "elf_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "arena.h"
#include "check.h"

static struct arena arena;

static int file_of(const uint8_t *bytes, size_t count)
{
    char path[] = "/tmp/selfsample-pages-XXXXXX";
    int fd = mkstemp(path);
    unlink(path);
    return fd >= 0 && write(fd, bytes, count) == (ssize_t)count ? fd : -1;
}

TEST(what_is_read_is_what_the_file_has)
{
    static uint8_t content[2][600001];
    uint64_t random = 5;
    int fds[2];
    for (unsigned f = 0; f < 2; f++) {
        for (size_t i = 0; i < sizeof content[f]; i++)
            content[f][i] = (uint8_t)((random = random * 6364136223846793005u + 1) >> 56);
        fds[f] = file_of(content[f], sizeof content[f]);
        REQUIRE(fds[f] >= 0);
    }
    struct elf_pages *pages = elf_pages_make(&arena);
    REQUIRE(pages != NULL);
    for (unsigned i = 0; i < 20000; i++) {
        random = random * 6364136223846793005u + 1;
        unsigned f = random >> 63;
        uint8_t ours[5000], theirs[5000];
        uint64_t offset = (random >> 20) % 601000;
        size_t bytes = (random >> 45) % sizeof ours;
        ssize_t wanted = pread(fds[f], theirs, bytes, (off_t)offset);
        REQUIRE(elf_pages_read(pages, fds[f], offset, ours, bytes) == wanted);
        REQUIRE(memcmp(ours, theirs, (size_t)wanted) == 0);
    }
    close(fds[0]);
    close(fds[1]);
    arena_destroy(&arena);
}

TEST(errors_and_ends)
{
    uint8_t byte, buffer[16];
    int fd = file_of((const uint8_t *)"abc", 3);
    struct elf_pages *pages = elf_pages_make(&arena);
    CHECK_I64(elf_pages_read(pages, -1, 0, &byte, 1), -EBADF);
    CHECK_I64(elf_pages_read(pages, fd, 1, buffer, sizeof buffer), 2);
    CHECK_I64(elf_pages_read(pages, fd, 3, buffer, sizeof buffer), 0);
    CHECK_I64(elf_pages_read(pages, fd, UINT64_MAX - 1, buffer, sizeof buffer), 0);
    CHECK_I64(elf_pages_read(pages, fd, (uint64_t)INT64_MAX - 1, buffer, sizeof buffer), 0);
    close(fd);
    CHECK_I64(elf_pages_read(pages, fd, 0, buffer, sizeof buffer), 3); /* kept */
    elf_pages_forget(pages);
    CHECK_I64(elf_pages_read(pages, fd, 0, buffer, sizeof buffer), -EBADF);
    arena.fail_countdown = 1;
    CHECK(elf_pages_make(&arena) == NULL);
    arena.fail_countdown = 0;
    arena_destroy(&arena);
}
