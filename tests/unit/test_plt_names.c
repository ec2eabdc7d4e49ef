/* plt_names against what objdump(1) says of the same stubs, on files of every linker there is. */
#include "plt_names.h"

#include <stdlib.h>

#include "arch_fixture.h"
#include "elf_fixture.h"

static struct arena names, scratch;

/* strcmp is called and its address taken, which makes ld use .plt.got; jump begins like a stub. */
static const char source[] =
    "namespace shop { int price(int); struct item { item(); ~item(); int left(); }; }\n"
    "extern \"C\" { int strcmp(const char *, const char *); int puts(const char *);\n"
    "int (*volatile taken)(const char *, const char *);\n"
    "int user(const char *text) { shop::item item; taken = strcmp;\n"
    "    return strcmp(text, \"x\") + puts(text) + shop::price(item.left()); }\n"
    "}\n"
    "__asm__(\".text\\n.balign 16\\n.globl jump\\n.type jump, %function\\njump: " ARCH_JUMP_CODE
    "\");\n";

static bool library_make(const char *flags)
{
    fixture_text("library.cc", source);
    return fixture_run("${CXX:-c++} -O1 -fPIC -shared %s -o library.so library.cc", flags);
}

static struct symbol_request resolve(const struct elf_file *file, uint64_t vaddr)
{
    struct symbol_request request = {.vaddr = vaddr};
    int result = plt_names_resolve(file, &request, 1, &names, &scratch);
    CHECK_I64(result, request.name != NULL ? 0 : -ENOENT);
    CHECK_U64(scratch.mapped_bytes, 0);
    return request;
}

/* Compares every instruction of every stub of PATH. How many stubs there were. */
static unsigned stubs_check(const char *path)
{
    char line[2048], name[1024] = "", colon_tab;
    struct elf_file file;
    unsigned long vaddr, start = 0;
    unsigned stubs = 0;
    int error, fd = fixture_open(&file, path, &names, &error);
    FILE *output = fixture_output("objdump -dwC --no-show-raw-insn '%s'", path);
    if (fd < 0)
        abort();
    while (fgets(line, sizeof line, output) != NULL) {
        if (sscanf(line, "%lx <%1023[^\n]", &vaddr, name) == 2) {
            start = vaddr;
            char *end = strstr(name, "@plt>:");
            if (end == NULL || name[0] == '*')
                name[0] = '\0';
            else
                end[strlen("@plt")] = '\0';
            stubs += name[0] != '\0';
        } else if (name[0] != '\0' && sscanf(line, " %lx:%c", &vaddr, &colon_tab) == 2) {
            struct symbol_request request = resolve(&file, vaddr);
            CHECK_STR(request.name, name);
            CHECK_U64(request.start_vaddr, start);
        }
    }
    pclose(output);
    close(fd);
    return stubs;
}

static bool has_section(const char *name)
{
    return fixture_run("readelf -SW library.so | grep -q ' %s '", name);
}

TEST(stubs_of_the_usual_linker)
{
    REQUIRE(library_make(""));
    CHECK(has_section(".plt") && has_section(ARCH_PLT_OF_TAKEN));
    CHECK(stubs_check(fixture_path("library.so")) >= 5);
    REQUIRE(fixture_run("strip library.so"));
    CHECK(stubs_check(fixture_path("library.so")) >= 5);
}

TEST(stubs_for_branch_tracking)
{
    REQUIRE(library_make(ARCH_BRANCH_TRACKING));
    CHECK(has_section(ARCH_PLT_OF_TRACKING));
    CHECK(stubs_check(fixture_path("library.so")) >= 5);
}

static void check_stubs(void)
{
    CHECK(stubs_check(fixture_path("library.so")) > 0);
}

TEST(stubs_of_other_linkers)
{
    fixture_other_linkers(library_make, check_stubs);
}

TEST(other_code_and_the_head_of_the_table_are_no_stubs)
{
    char line[256];
    struct elf_file file;
    unsigned long plt = 0;
    int error;
    REQUIRE(library_make(""));
    uint64_t jump = fixture_symbol("library.so", "jump");
    FILE *output = fixture_output("readelf -SW library.so | grep ' .plt '");
    if (fgets(line, sizeof line, output) != NULL)
        sscanf(strchr(line, ']') + 1, " %*s %*s %lx", &plt);
    pclose(output);
    REQUIRE(jump != 0 && jump % 16 == 0 && plt != 0);
    int fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0);
    CHECK_STR(resolve(&file, jump).name, NULL);
    CHECK_STR(resolve(&file, plt).name, NULL);
    CHECK_STR(resolve(&file, plt + 6).name, NULL);
    CHECK_STR(resolve(&file, 0).name, NULL);
    CHECK_STR(resolve(&file, UINT64_MAX).name, NULL);
    close(fd);
}

/* What is named already stays so; of many requests, in their order, each gets its own. */
TEST(many_requests_at_once)
{
    struct elf_file file;
    char line[1024], name[512];
    unsigned long vaddr;
    static struct symbol_request requests[512];
    static char expected[512][512];
    unsigned count = 0;
    int error;
    REQUIRE(library_make(""));
    FILE *output = fixture_output("objdump -dwC library.so | grep -E '^[0-9a-f]+ <.*>:$'");
    while (count < 500 && fgets(line, sizeof line, output) != NULL) {
        if (sscanf(line, "%lx <%511[^\n]", &vaddr, name) != 2)
            continue;
        char *end = strstr(name, "@plt>:");
        for (unsigned twice = 0; twice < 2; twice++, count++) {
            requests[count].vaddr = vaddr + twice * 2;
            if (end != NULL && name[0] != '*')
                snprintf(expected[count], 512, "%.*s@plt", (int)(end - name), name);
        }
    }
    pclose(output);
    requests[3].name = "named before";
    strcpy(expected[3], "named before");
    int fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0 && count > 10);
    for (unsigned i = 1; i < count; i++)
        REQUIRE(requests[i - 1].vaddr < requests[i].vaddr);
    CHECK_I64(plt_names_resolve(&file, requests, count, &names, &scratch), 0);
    for (unsigned i = 0; i < count; i++)
        CHECK_STR(requests[i].name, expected[i][0] != '\0' ? expected[i] : NULL);
    close(fd);
}

/* Is NAME one that nm(1) gives to the IFUNC at VADDR, with the suffix of a stub? */
static bool is_name_of(const char *name, const char *path, uint64_t vaddr)
{
    char line[512], symbol[400], type;
    unsigned long at;
    bool found = false;
    FILE *output = fixture_output("nm '%s' 2>&1; nm -D '%s' 2>&1", path, path);
    while (fgets(line, sizeof line, output) != NULL) {
        if (sscanf(line, "%lx %c %395s", &at, &type, symbol) != 3 || at != vaddr || type != 'i')
            continue;
        symbol[strcspn(symbol, "@")] = '\0';
        strcat(symbol, "@plt");
        found |= strcmp(symbol, name) == 0;
    }
    pclose(output);
    return found;
}

/*
 * Stubs for functions that pick among their variants: objdump tells which word a stub of .plt jumps
 * through, readelf which picker fills it in. How many were named.
 */
static unsigned pickers_check(const char *path)
{
    char line[512];
    struct elf_file file;
    unsigned long stub, slot, at, picker;
    unsigned named = 0;
    int error, fd = fixture_open(&file, path, &names, &error);
    if (ARCH_PLT_SLOT_SED[0] == '\0')
        SKIP("objdump does not tell this processor's slots");
    FILE *output = fixture_output("objdump -dw --no-show-raw-insn -j .plt '%s' | "
                                  "sed -n '" ARCH_PLT_SLOT_SED "'",
                                  path);
    if (fd < 0)
        abort();
    while (fgets(line, sizeof line, output) != NULL) {
        if (sscanf(line, "%lx %lx", &stub, &slot) != 2)
            continue;
        struct symbol_request request = resolve(&file, stub);
        FILE *relocs = fixture_output("readelf -rW '%s' | grep '^0*%lx .*_IRELATIV'", path, slot);
        if (fgets(line, sizeof line, relocs) != NULL &&
            sscanf(line, "%lx %*x %*s %lx", &at, &picker) == 2 && request.name != NULL) {
            CHECK(is_name_of(request.name, path, picker));
            CHECK_U64(request.start_vaddr, stub);
            named++;
        }
        pclose(relocs);
    }
    pclose(output);
    close(fd);
    return named;
}

TEST(functions_that_pick_among_variants)
{
    CHECK(pickers_check(fixture_library("libc.so.6")) > 0);
}

/* Its stubs have 8 bytes and begin where 16 do not divide. */
TEST(a_program_without_shared_libraries)
{
    fixture_text("program.c", "int main(int n, char **v) { (void)v; return n; }\n");
    if (!fixture_run("${CC:-cc} -static -o program program.c"))
        SKIP("no static libc");
    CHECK(pickers_check(fixture_path("program")) > 10);
}

TEST(spoilt_bytes_and_cut_files)
{
    size_t bytes;
    struct elf_file file;
    REQUIRE(library_make("-Wl,-z,noseparate-code") && fixture_run("strip library.so"));
    uint8_t *loaded = fixture_load(fixture_path("library.so"), &bytes);
    uint8_t *image = malloc(bytes);
    memcpy(image, loaded, bytes);
    free(loaded);
    for (size_t at = 0; at < bytes; at++) {
        struct arena_mark mark = arena_mark(&names);
        struct symbol_request requests[64] = {{0}};
        for (unsigned i = 0; i < 64; i++)
            requests[i].vaddr = 0x400 + i * 16;
        uint8_t saved = image[at];
        image[at] = at % 2 != 0 ? 0xff : 0x00;
        if (elf_file_read(&file, elf_source_memory(image, at % 16 == 0 ? at : bytes), &names) == 0)
            plt_names_resolve(&file, requests, 64, &names, &scratch);
        image[at] = saved;
        CHECK_U64(scratch.mapped_bytes, 0);
        arena_release(&names, mark);
    }
    free(image);
}

TEST(every_allocation_may_fail)
{
    struct elf_file file;
    char line[256];
    unsigned long puts_stub = 0;
    int error;
    REQUIRE(library_make(""));
    FILE *output = fixture_output("objdump -dw library.so | grep '<puts@plt>:'");
    if (fgets(line, sizeof line, output) != NULL)
        sscanf(line, "%lx", &puts_stub);
    pclose(output);
    int fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0 && puts_stub != 0);
    struct arena *const failing[] = {&names, &scratch};
    for (unsigned which = 0; which < 2; which++) {
        bool failed = false;
        for (int nth = 1; nth < 20; nth++) {
            struct symbol_request request = {.vaddr = puts_stub};
            failing[which]->fail_countdown = nth;
            int result = plt_names_resolve(&file, &request, 1, &names, &scratch);
            failing[which]->fail_countdown = 0;
            failed |= result != 0;
            CHECK((result == 0) == (request.name != NULL));
            CHECK(result != 0 || strcmp(request.name, "puts@plt") == 0);
            CHECK_U64(scratch.mapped_bytes, 0);
        }
        CHECK(failed);
    }
    close(fd);
}
