/* debugdata on what xz packs and objcopy puts into a file. */
#include "debugdata.h"

#include <errno.h>

#include "elf_fixture.h"
#include "symbols.h"

static struct arena arena, names;

/* app with a .gnu_debugdata of app's symbols, packed with those options. */
static bool pack(const char *options)
{
    fixture_text("app.c", "static __attribute__((noinline)) int hidden(int x) { return x + 1; }\n"
                          "int main(int n, char **v) { (void)v; return hidden(n); }\n");
    return fixture_run("${CC:-cc} -O1 -o whole app.c && strip -g -o mini whole && "
                       "xz --stdout %s mini > mini.xz && strip -o app whole && "
                       "objcopy --add-section .gnu_debugdata=mini.xz app",
                       options);
}

static int open_app(struct elf_file *debug, struct elf_file *app, struct arena *memory)
{
    int error, fd = fixture_open(app, fixture_path("app"), &names, &error);
    REQUIRE(fd >= 0);
    error = debugdata_open(debug, app, memory);
    close(fd);
    return error;
}

static void check_has_hidden(const struct elf_file *debug)
{
    struct symbol_request request = {.vaddr = fixture_symbol("whole", "hidden")};
    CHECK_I64(symbols_resolve(debug, SYMBOLS_SYMTAB, NULL, &request, 1, &names, &arena), 0);
    CHECK_STR(request.name, "hidden");
}

TEST(symbols_come_out)
{
    static const char *const options[] = {
        "-0", "-6", "-9", "--check=none", "--check=sha256", "--x86 --lzma2"};
    for (unsigned i = 0; i < sizeof options / sizeof options[0]; i++) {
        struct elf_file app, debug;
        size_t bytes;
        REQUIRE(pack(options[i]));
        REQUIRE(open_app(&debug, &app, &arena) == 0);
        uint8_t *mini = fixture_load(fixture_path("mini"), &bytes);
        CHECK_U64(debug.source.memory_bytes, bytes);
        CHECK_MEM(debug.source.memory, mini, bytes);
        check_has_hidden(&debug);
        free(mini);
        arena_destroy(&arena);
    }
}

TEST(a_file_without_it)
{
    struct elf_file app, debug;
    REQUIRE(pack("-6") && fixture_run("strip -R .gnu_debugdata app"));
    CHECK_I64(open_app(&debug, &app, &arena), -ENOENT);
}

TEST(what_is_packed_is_no_elf)
{
    struct elf_file app, debug;
    REQUIRE(pack("-6") && fixture_run("echo text | xz > t.xz && "
                                      "objcopy --update-section .gnu_debugdata=t.xz app"));
    CHECK_I64(open_app(&debug, &app, &arena), -EBADMSG);
}

/* 100 MiB of zeros are 15 KB when packed. */
TEST(too_much_is_refused)
{
    struct elf_file app, debug;
    REQUIRE(pack("-6") && fixture_run("head -c 100M /dev/zero | xz -1 > t.xz && "
                                      "objcopy --update-section .gnu_debugdata=t.xz app"));
    struct arena fresh;
    arena_init(&fresh, 0);
    CHECK_I64(open_app(&debug, &app, &fresh), -EBADMSG);
    CHECK(fresh.peak_bytes < 1024 * 1024);
    arena_destroy(&fresh);
}

TEST(damage_at_any_byte_is_noticed)
{
    struct elf_file app, debug;
    size_t bytes;
    REQUIRE(pack("-6"));
    uint8_t *packed = fixture_load(fixture_path("mini.xz"), &bytes);
    size_t whole_bytes;
    uint8_t *whole = fixture_load(fixture_path("app"), &whole_bytes);
    uint8_t *section = memmem(whole, whole_bytes, packed, bytes);
    REQUIRE(section != NULL);
    for (size_t i = 0; i < bytes; i += i < 64 || i + 64 > bytes ? 1 : 37) {
        section[i] ^= 0x41;
        if (elf_file_read(&app, elf_source_memory(whole, whole_bytes), &names) == 0)
            CHECK_I64(debugdata_open(&debug, &app, &arena), -EBADMSG);
        section[i] ^= 0x41;
        arena_destroy(&arena);
    }
    free(packed);
    free(whole);
}

TEST(every_allocation_may_fail)
{
    struct elf_file app, debug;
    REQUIRE(pack("-6"));
    int nth = 0, error;
    do {
        struct arena failing;
        arena_init(&failing, 0);
        failing.fail_countdown = ++nth;
        error = open_app(&debug, &app, &failing);
        CHECK(error == 0 || error == -ENOMEM || error == -EBADMSG);
        arena_destroy(&failing);
    } while (error != 0 && nth < 50);
    CHECK(nth > 4 && nth < 50);
}
