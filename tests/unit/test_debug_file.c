/* debug_file on what objcopy splits, with a directory of its own in the place of /usr/lib/debug. */
#include "debug_file.h"

#include <errno.h>

#include "elf_fixture.h"

static struct arena arena;

/* app (stripped) and app.debug, made with and without a build id. */
static void split(const char *build_id)
{
    fixture_text("app.c",
                 "int hidden(int x) { return x; }\nint main(void) { return hidden(0); }\n");
    REQUIRE(fixture_run("rm -rf app app.debug debug .debug && "
                        "${CC:-cc} -O1 -fno-inline -Wl,--build-id=%s -o app app.c && "
                        "objcopy --only-keep-debug app app.debug && strip app",
                        build_id));
}

/* The file that is found for DIRECTORY/app, relative to the directory; "" where none is. */
static const char *found(void)
{
    static char target[512];
    char link[64], directory[256];
    struct elf_file main_file, debug;
    int error, fd = fixture_open(&main_file, fixture_path("app"), &arena, &error);
    REQUIRE(fd >= 0);
    snprintf(directory, sizeof directory, "%s", fixture_path("debug"));
    int debug_fd = debug_file_open(&debug, &main_file, fixture_path("app"), directory, &arena);
    close(fd);
    target[0] = '\0';
    if (debug_fd < 0) {
        CHECK_I64(debug_fd, -ENOENT);
        return target;
    }
    CHECK_U64(debug.source.fd, debug_fd);
    snprintf(link, sizeof link, "/proc/self/fd/%d", debug_fd);
    ssize_t length = readlink(link, target, sizeof target - 1);
    close(debug_fd);
    REQUIRE(length > (ssize_t)strlen(fixture_dir()));
    target[length] = '\0';
    return target + strlen(fixture_dir()) + 1;
}

/* The check value of CRC-32/ISO-HDLC, as every catalogue of CRCs has it. */
TEST(crc32_of_the_usual_nine_digits)
{
    const uint8_t digits[] = "123456789";
    CHECK_U64(debug_file_crc32(0, digits, 9), 0xcbf43926);
    CHECK_U64(debug_file_crc32(debug_file_crc32(0, digits, 4), digits + 4, 5), 0xcbf43926);
    CHECK_U64(debug_file_crc32(0, digits, 0), 0);
}

TEST(by_build_id)
{
    split("0xabcdef0123");
    CHECK_STR(found(), "");
    REQUIRE(fixture_run(
        "mkdir -p debug/.build-id/ab && cp app.debug debug/.build-id/ab/cdef0123.debug"));
    CHECK_STR(found(), "debug/.build-id/ab/cdef0123.debug");
}

TEST(another_build_under_our_build_id_is_refused)
{
    split("0x1111");
    REQUIRE(fixture_run("mv app.debug other.debug"));
    split("0xabcdef0123");
    REQUIRE(fixture_run(
        "mkdir -p debug/.build-id/ab && cp other.debug debug/.build-id/ab/cdef0123.debug"));
    CHECK_STR(found(), "");
}

TEST(by_link_in_its_three_places)
{
    static const char *const build_ids[] = {"sha1", "none"};
    for (unsigned i = 0; i < 2; i++) {
        split(build_ids[i]);
        REQUIRE(fixture_run("objcopy --add-gnu-debuglink=app.debug app"));
        CHECK_STR(found(), "app.debug");
        REQUIRE(fixture_run("mkdir .debug && mv app.debug .debug"));
        CHECK_STR(found(), ".debug/app.debug");
        REQUIRE(fixture_run("mkdir -p debug$PWD && mv .debug/app.debug debug$PWD"));
        char expected[256];
        snprintf(expected, sizeof expected, "debug%s/app.debug", fixture_dir());
        CHECK_STR(found(), expected);
    }
}

TEST(another_checksum_is_refused)
{
    split("none");
    REQUIRE(fixture_run("objcopy --add-gnu-debuglink=app.debug app && printf x >> app.debug"));
    CHECK_STR(found(), "");
}

TEST(another_build_under_our_link_is_refused)
{
    split("0xabcdef0123");
    REQUIRE(fixture_run("objcopy --add-gnu-debuglink=app.debug app"));
    CHECK_STR(found(), "app.debug");
    split("0x1111");
    REQUIRE(fixture_run("mv app.debug other.debug"));
    split("0xabcdef0123");
    REQUIRE(fixture_run("objcopy --add-gnu-debuglink=app.debug app && mv other.debug app.debug"));
    CHECK_STR(found(), "");
}

/* With the link's name its own, the file finds itself, which has no symbols; the right one is
 * further. */
TEST(a_file_without_symbols_is_passed_over)
{
    split("sha1");
    REQUIRE(fixture_run("mkdir -p .debug && cp app.debug .debug/app && cp app.debug app2 && "
                        "mkdir t && cp app.debug t/app && "
                        "objcopy --add-gnu-debuglink=t/app app && rm -r t"));
    CHECK_STR(found(), ".debug/app");
}

/* A pipe would keep its reader waiting, or let its writer go on; a directory cannot be read. */
TEST(what_is_no_file_is_passed_over)
{
    split("sha1");
    REQUIRE(fixture_run("objcopy --add-gnu-debuglink=app.debug app && mkdir .debug && "
                        "mv app.debug .debug && mkfifo app.debug"));
    int watch = fixture_watch_opens("app.debug");
    CHECK_STR(found(), ".debug/app.debug");
    CHECK(!fixture_was_opened(watch));
    REQUIRE(fixture_run("rm app.debug && mkdir app.debug"));
    CHECK_STR(found(), ".debug/app.debug");
    REQUIRE(fixture_run("rmdir app.debug"));
}

/* The section's text is the attacker's: no directories, no missing end. */
TEST(links_that_make_no_sense)
{
    static const struct {
        const char *bytes;
        size_t count;
    } links[] = {{"../app.debug\0\0\0\0abcd", 20},
                 {"app.debugapp.debug", 18},
                 {"", 1},
                 {"\0\0\0\0abcd", 8},
                 {"app.debug\0\0\0", 12}};
    for (unsigned i = 0; i < sizeof links / sizeof links[0]; i++) {
        split("sha1");
        fixture_write("link", links[i].bytes, links[i].count);
        REQUIRE(fixture_run("objcopy --add-section .gnu_debuglink=link app"));
        CHECK_STR(found(), "");
    }
}

TEST(the_system_s_own_debug_files)
{
    struct elf_file libc, debug;
    const char *path = fixture_library("libc.so.6");
    int error, fd = fixture_open(&libc, path, &arena, &error);
    REQUIRE(fd >= 0);
    int debug_fd = debug_file_open(&debug, &libc, path, DEBUG_FILE_DIRECTORY, &arena);
    close(fd);
    if (debug_fd < 0)
        SKIP("no debug file of libc here");
    CHECK(elf_file_same_build_id(&libc, &debug));
    close(debug_fd);
}
