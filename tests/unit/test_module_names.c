/*
 * module_names: the whole chain on one program, stripped in every way; and the whole chain on files
 * that are damaged, which must neither crash it (the sanitizers watch) nor hold it up.
 */
#include "module_names.h"

#include "cfi_table.h"
#include "elf_fixture.h"

static struct arena names, scratch;

static const char source[] =
    "namespace shop { __attribute__((noinline)) int price(int x) { return x * 3; } }\n"
    "static __attribute__((noinline)) int hidden(int x) { return shop::price(x) + 1; }\n"
    "extern \"C\" __attribute__((noinline, visibility(\"default\"))) int visible(int x) "
    "{ return hidden(x) + 1; }\n";

static uint64_t price, hidden, visible;

static bool library_make(const char *flags)
{
    bool made;
    fixture_text("library.cc", source);
    made = fixture_run("rm -rf .debug *.debug && ${CXX:-c++} -O1 -fPIC -shared -fvisibility=hidden "
                       "-Wl,--build-id=sha1 %s -o whole.so library.cc && cp whole.so library.so",
                       flags);
    price = fixture_symbol("whole.so", "_ZN4shop5priceEi");
    hidden = fixture_symbol("whole.so", "_ZL6hiddeni");
    visible = fixture_symbol("whole.so", "visible");
    return made && price != 0 && hidden != 0 && visible != 0;
}

static int by_vaddr(const void *a, const void *b)
{
    const struct symbol_request *one = a, *other = b;
    return one->vaddr < other->vaddr ? -1 : one->vaddr > other->vaddr;
}

/* What library.so says of the three functions' second bytes. */
static void check_names(const char *price_name, const char *hidden_name, const char *visible_name)
{
    struct symbol_request requests[3] = {
        {.vaddr = price + 1}, {.vaddr = hidden + 1}, {.vaddr = visible + 1}};
    struct elf_file file;
    int error, fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0);
    qsort(requests, 3, sizeof requests[0], by_vaddr);
    module_names_resolve(&file, fixture_path("library.so"), requests, 3, &names, &scratch);
    CHECK_U64(scratch.mapped_bytes, 0);
    close(fd);
    for (unsigned i = 0; i < 3; i++) {
        const struct symbol_request *request = &requests[i];
        CHECK_U64(request->start_vaddr, request->vaddr - 1);
        CHECK_STR(request->name, request->vaddr == price + 1    ? price_name
                                 : request->vaddr == hidden + 1 ? hidden_name
                                                                : visible_name);
    }
}

TEST(a_file_with_its_symbols)
{
    REQUIRE(library_make(""));
    check_names("shop::price(int)", "hidden(int)", "visible");
}

TEST(a_stripped_file_is_named_by_its_exports_and_its_frames)
{
    REQUIRE(library_make("") && fixture_run("strip library.so"));
    check_names(NULL, NULL, "visible");
    REQUIRE(library_make("-Wl,--no-eh-frame-hdr") && fixture_run("strip library.so"));
    check_names(NULL, NULL, "visible");
}

TEST(a_stripped_file_with_a_debug_file)
{
    REQUIRE(library_make("-g") &&
            fixture_run("objcopy --only-keep-debug library.so library.debug && strip library.so && "
                        "objcopy --add-gnu-debuglink=library.debug library.so"));
    check_names("shop::price(int)", "hidden(int)", "visible");
    REQUIRE(library_make("-g -gz") &&
            fixture_run("objcopy --only-keep-debug library.so library.debug && strip library.so && "
                        "objcopy --add-gnu-debuglink=library.debug library.so"));
    check_names("shop::price(int)", "hidden(int)", "visible");
}

TEST(a_stripped_file_with_mini_debug_info)
{
    REQUIRE(library_make("") &&
            fixture_run("strip -g -o mini library.so && xz -k -f mini && strip library.so && "
                        "objcopy --add-section .gnu_debugdata=mini.xz library.so"));
    check_names("shop::price(int)", "hidden(int)", "visible");
}

TEST(without_frames_an_address_is_its_own_start)
{
    struct symbol_request request;
    struct elf_file file;
    int error;
    REQUIRE(library_make("-fno-asynchronous-unwind-tables -fno-exceptions") &&
            fixture_run("strip -R .eh_frame -R .eh_frame_hdr library.so"));
    int fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0);
    request = (struct symbol_request){.vaddr = hidden + 3};
    module_names_resolve(&file, NULL, &request, 1, &names, &scratch);
    CHECK_STR(request.name, NULL);
    CHECK_U64(request.start_vaddr, hidden + 3);
    close(fd);
}

static void check_of_other_linker(void)
{
    check_names("shop::price(int)", "hidden(int)", "visible");
    REQUIRE(fixture_run("strip library.so"));
    check_names(NULL, NULL, "visible");
}

TEST(other_linkers)
{
    fixture_other_linkers(library_make, check_of_other_linker);
}

TEST(the_vdso)
{
    char line[512];
    struct elf_file vdso;
    size_t bytes;
    const void *start = fixture_vdso(&bytes);
    fixture_write("vdso.so", start, bytes);
    uint64_t vaddr = 0;
    FILE *output = fixture_output("nm -D vdso.so");
    while (fgets(line, sizeof line, output) != NULL)
        if (strstr(line, " __vdso_clock_gettime") != NULL)
            vaddr = strtoul(line, NULL, 16);
    pclose(output);
    REQUIRE(vaddr != 0);
    REQUIRE(elf_file_read(&vdso, elf_source_memory(start, bytes), &names) == 0);
    struct symbol_request request = {.vaddr = vaddr + 1};
    module_names_resolve(&vdso, NULL, &request, 1, &names, &scratch);
    CHECK_STR(request.name, "clock_gettime");
    CHECK_U64(request.start_vaddr, vaddr);
}

/* Everything that reads ELF, on one image. */
static void chain_run(const uint8_t *image, size_t bytes)
{
    struct arena_mark mark = arena_mark(&names);
    struct elf_file file;
    struct cfi_table table;
    struct symbol_request requests[8] = {{.vaddr = 0}, {.vaddr = 0x1000}};
    requests[2].vaddr = price + 1;
    requests[3].vaddr = hidden + 1;
    requests[4].vaddr = visible + 1;
    requests[5].vaddr = 0x3000;
    requests[6].vaddr = 0x100000;
    requests[7].vaddr = UINT64_MAX;
    qsort(requests, 8, sizeof requests[0], by_vaddr);
    if (elf_file_read(&file, elf_source_memory(image, bytes), &names) == 0) {
        module_names_resolve(&file, "/nowhere/library.so", requests, 8, &names, &scratch);
        cfi_table_build(&table, &file, 0x7f0000000000, 0x7f0010000000, &names, &scratch);
        for (unsigned i = 0; i < 8; i++)
            CHECK(requests[i].name == NULL || strlen(requests[i].name) > 0);
    }
    CHECK_U64(scratch.mapped_bytes, 0);
    arena_release(&names, mark);
}

/* The image in memory of exactly its size, so that the sanitizer sees any read behind it. */
static uint8_t *image_load(size_t *bytes)
{
    uint8_t *loaded = fixture_load(fixture_path("library.so"), bytes);
    uint8_t *exact = malloc(*bytes);
    memcpy(exact, loaded, *bytes);
    free(loaded);
    return exact;
}

/* Three ways to find frames: with a table, without one, in .debug_frame; with mini debug info. */
static bool image_make(unsigned kind)
{
    static const char *const flags[] = {"", "-Wl,--no-eh-frame-hdr",
                                        "-g -fno-asynchronous-unwind-tables -fno-exceptions"};
    return library_make(flags[kind]) &&
           (kind != 0 || fixture_run("strip -g -o mini library.so && xz -k -f mini && "
                                     "objcopy --add-section .gnu_debugdata=mini.xz library.so"));
}

TEST(files_cut_at_every_64th_byte)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        size_t bytes;
        REQUIRE(image_make(kind));
        uint8_t *image = image_load(&bytes);
        for (size_t cut = 0; cut < bytes; cut += 64) {
            uint8_t *part = malloc(cut + 1);
            memcpy(part, image, cut);
            chain_run(part, cut);
            free(part);
        }
        free(image);
    }
}

/* Every byte of a part of the image, set to what tends to hurt. */
static void bytes_spoil(uint8_t *image, size_t bytes, size_t start, size_t count, size_t step)
{
    static const uint8_t values[] = {0x00, 0xff, 0x7f, 0x80};
    for (size_t i = start; i < start + count && i < bytes; i += step) {
        uint8_t saved = image[i];
        for (unsigned k = 0; k < sizeof values; k++) {
            image[i] = values[k];
            chain_run(image, bytes);
        }
        image[i] = saved;
    }
}

TEST(spoilt_bytes_in_headers_tables_and_frames)
{
    for (unsigned kind = 0; kind < 3; kind++) {
        static const char *const sections[] = {".eh_frame", ".eh_frame_hdr", ".debug_frame",
                                               ".symtab", ".note.gnu.build-id"};
        size_t bytes;
        struct elf_file file;
        REQUIRE(image_make(kind));
        uint8_t *image = image_load(&bytes);
        REQUIRE(elf_file_read(&file, elf_source_memory(image, bytes), &names) == 0);
        bytes_spoil(image, bytes, 0, 64 + 12 * 56, 1);
        bytes_spoil(image, bytes, file.sections_offset, file.section_count * 64u, 3);
        for (unsigned i = 0; i < sizeof sections / sizeof sections[0]; i++) {
            char line[512];
            unsigned long offset = 0, size = 0;
            FILE *output = fixture_output("readelf -SW library.so | grep ' %s '", sections[i]);
            if (fgets(line, sizeof line, output) != NULL)
                sscanf(strchr(line, ']') + 1, " %*s %*s %*x %lx %lx", &offset, &size);
            pclose(output);
            bytes_spoil(image, bytes, offset, size < 600 ? size : 600, 1);
        }
        free(image);
    }
}

TEST(random_bytes_behind_a_good_header)
{
    uint32_t state = 1;
    size_t bytes;
    REQUIRE(image_make(1));
    uint8_t *image = image_load(&bytes), *spoilt = malloc(bytes);
    for (unsigned round = 0; round < 2000; round++) {
        memcpy(spoilt, image, bytes);
        for (unsigned i = 0; i < 1 + round % 200; i++) {
            state = state * 1664525 + 1013904223;
            size_t at = 64 + (state >> 8) % (bytes - 64);
            state = state * 1664525 + 1013904223;
            spoilt[at] = (uint8_t)(state >> 16);
        }
        chain_run(spoilt, bytes);
    }
    free(image);
    free(spoilt);
}

TEST(every_allocation_may_fail)
{
    struct elf_file file;
    int error;
    REQUIRE(image_make(0));
    int fd = fixture_open(&file, fixture_path("library.so"), &names, &error);
    REQUIRE(fd >= 0);
    struct arena *const failing[] = {&names, &scratch};
    for (unsigned which = 0; which < 2; which++) {
        for (int nth = 1; nth < 40; nth++) {
            struct symbol_request requests[1] = {{.vaddr = price + 1}};
            failing[which]->fail_countdown = nth;
            module_names_resolve(&file, NULL, requests, 1, &names, &scratch);
            failing[which]->fail_countdown = 0;
            CHECK_U64(requests[0].start_vaddr, price);
            CHECK(requests[0].name == NULL || strcmp(requests[0].name, "shop::price(int)") == 0 ||
                  strcmp(requests[0].name, "_ZN4shop5priceEi") == 0);
            CHECK_U64(scratch.mapped_bytes, 0);
        }
    }
    close(fd);
}
