/* symbols and elf_symtab against nm, on the system's libraries and on what gcc and gas make here.
 */
#include "symbols.h"

#include <elf.h>
#include <errno.h>
#include <time.h>

#include "elf_fixture.h"
#include "elf_symtab.h"
#include "fde_range.h"

static struct arena names, scratch;

static void resolve(const char *path, enum symbols_table table, struct symbol_request *requests,
                    size_t count, int expected)
{
    struct elf_file file;
    struct fde_ranges ranges;
    int error, fd = fixture_open(&file, path, &names, &error);
    REQUIRE(fd >= 0);
    fde_ranges_open(&ranges, &file, &names);
    CHECK_I64(symbols_resolve(&file, table, &ranges, requests, count, &names, &scratch), expected);
    CHECK_U64(scratch.mapped_bytes, 0);
    close(fd);
}

/* The name of one address, or NULL. */
static const char *name_at(const char *file, uint64_t vaddr)
{
    struct symbol_request request = {.vaddr = vaddr};
    resolve(fixture_path(file), SYMBOLS_SYMTAB, &request, 1, 0);
    return request.name;
}

static bool assemble(const char *text)
{
    fixture_text("made.s", text);
    return fixture_run("${CC:-cc} -shared -nostdlib -o made.so made.s");
}

static int by_vaddr(const void *a, const void *b)
{
    const struct symbol_request *one = a, *other = b;
    return one->vaddr < other->vaddr ? -1 : one->vaddr > other->vaddr;
}

/* Functions as nm tells them: name, first address, size. */
struct known {
    unsigned long vaddr, bytes;
    char name[400];
};

static size_t known_read(struct known *known, size_t limit, const char *path, const char *flags)
{
    char line[4096], type;
    size_t count = 0;
    FILE *output = fixture_output("nm %s -S --defined-only --no-demangle '%s'", flags, path);
    while (count < limit && fgets(line, sizeof line, output) != NULL) {
        struct known *new = &known[count];
        if (sscanf(line, "%lx %lx %c %399s", &new->vaddr, &new->bytes, &type, new->name) == 4 &&
            new->bytes != 0 && strchr("tTwWi", type) != NULL && strlen(new->name) < 399) {
            new->name[strcspn(new->name, "@")] = '\0';
            count++;
        }
    }
    pclose(output);
    return count;
}

static bool is_alias(const struct known *known, size_t count, const struct symbol_request *request)
{
    for (size_t i = 0; i < count; i++) {
        if (known[i].vaddr == request->start_vaddr && strcmp(known[i].name, request->name) == 0)
            return true;
    }
    return false;
}

/* First and last byte of every function have one of its names; the byte behind has not. */
static void check_against_nm(const char *path, const char *flags, enum symbols_table table)
{
    enum { LIMIT = 8000 };
    static struct known known[LIMIT];
    static struct symbol_request requests[3 * LIMIT];
    size_t count = known_read(known, LIMIT, path, flags);
    CHECK(count > 1000);
    for (size_t i = 0; i < count; i++) {
        requests[3 * i] = (struct symbol_request){.vaddr = known[i].vaddr};
        requests[3 * i + 1] = (struct symbol_request){.vaddr = known[i].vaddr + known[i].bytes - 1};
        requests[3 * i + 2] = (struct symbol_request){.vaddr = known[i].vaddr + known[i].bytes};
    }
    qsort(requests, 3 * count, sizeof requests[0], by_vaddr);
    resolve(path, table, requests, 3 * count, 0);
    for (size_t i = 0; i < count; i++) {
        struct symbol_request wanted = {.vaddr = known[i].vaddr};
        const struct symbol_request *found =
            bsearch(&wanted, requests, 3 * count, sizeof requests[0], by_vaddr);
        CHECK(found->name != NULL);
        CHECK_U64(found->start_vaddr, known[i].vaddr);
    }
    for (size_t i = 0; i < 3 * count; i += 7)
        CHECK(requests[i].name == NULL || is_alias(known, count, &requests[i]));
}

TEST(every_exported_function_of_libc)
{
    check_against_nm(fixture_library("libc.so.6"), "-D", SYMBOLS_DYNSYM);
}

TEST(exported_functions_of_libstdcxx)
{
    check_against_nm(fixture_library("libstdc++.so.6"), "-D", SYMBOLS_DYNSYM);
}

TEST(what_a_user_knows_is_preferred_among_aliases)
{
    struct symbol_request request = {0};
    char line[512], type;
    unsigned long value;
    const char *libc = fixture_library("libc.so.6");
    FILE *output = fixture_output("nm -D '%s' | grep ' __write@'", libc);
    if (fgets(line, sizeof line, output) != NULL && sscanf(line, "%lx %c", &value, &type) == 2)
        request.vaddr = value + 1;
    pclose(output);
    REQUIRE(request.vaddr != 0);
    resolve(libc, SYMBOLS_DYNSYM, &request, 1, 0);
    CHECK_STR(request.name, "write");

    /* Local before global in the file; the underscores decide first, then the binding. */
    REQUIRE(assemble(
        ".text\n.macro f n\n.type \\n, @function\n.size \\n, 4\n\\n:\n.endm\n"
        ".globl __a, b_long, zz, aa\n.weak w\n"
        "f loc\nf w\nf __a\nf b_long\n.skip 4\nf l\nf w2\n.skip 4\nf zz\nf aa\n.skip 4\n"));
    CHECK_STR(name_at("made.so", fixture_symbol("made.so", "loc")), "b_long");
    CHECK_STR(name_at("made.so", fixture_symbol("made.so", "l")), "l");
    CHECK_STR(name_at("made.so", fixture_symbol("made.so", "aa")), "aa");
}

TEST(an_address_outside_is_not_blamed_on_a_neighbour)
{
    REQUIRE(assemble(".text\n.type f, @function\nf: .skip 8\n.size f, 8\n.skip 8\n"
                     ".type g, @function\ng: .skip 8\n.size g, 8\n.skip 8\n"));
    uint64_t f = fixture_symbol("made.so", "f"), g = fixture_symbol("made.so", "g");
    CHECK_STR(name_at("made.so", f), "f");
    CHECK_STR(name_at("made.so", f + 7), "f");
    CHECK_STR(name_at("made.so", f + 8), NULL);
    CHECK_STR(name_at("made.so", g - 1), NULL);
    CHECK_STR(name_at("made.so", g), "g");
    CHECK_STR(name_at("made.so", g + 8), NULL);
    CHECK_STR(name_at("made.so", 0), NULL);
    CHECK_STR(name_at("made.so", UINT64_MAX), NULL);
}

TEST(symbols_without_a_size_end_at_the_next_one)
{
    REQUIRE(assemble(".text\nlabel: .skip 8\n.type f, @function\nf: .skip 8\n.size f, 8\n.skip 8\n"
                     ".type untold, @function\nuntold: .skip 8\n"));
    uint64_t label = fixture_symbol("made.so", "label"), f = fixture_symbol("made.so", "f");
    uint64_t untold = fixture_symbol("made.so", "untold");
    CHECK_STR(name_at("made.so", label), "label");
    CHECK_STR(name_at("made.so", label + 7), "label");
    CHECK_STR(name_at("made.so", f), "f");
    CHECK_STR(name_at("made.so", f + 8), NULL);
    CHECK_STR(name_at("made.so", untold + 7), "untold");
    CHECK_STR(name_at("made.so", untold + 8), NULL); /* the section ends */

    struct symbol_request both[2] = {{.vaddr = untold}, {.vaddr = untold + 7}};
    resolve(fixture_path("made.so"), SYMBOLS_SYMTAB, both, 2, 0);
    CHECK_STR(both[1].name, "untold");
    CHECK(both[0].name == both[1].name);
    CHECK_U64(both[1].start_vaddr, untold);
}

/* A label in the middle of a function is not the function; one that begins it is, to its end. */
TEST(symbols_without_a_size_keep_to_the_unwind_table)
{
    REQUIRE(assemble(".text\nbefore: .skip 8\nstart: .cfi_startproc\n.skip 8\ninner: .skip 8\n"
                     ".cfi_endproc\n.skip 8\n"));
    uint64_t start = fixture_symbol("made.so", "start");
    CHECK_STR(name_at("made.so", start - 8), "before");
    CHECK_STR(name_at("made.so", start), "start");
    CHECK_STR(name_at("made.so", start + 7), "start");
    CHECK_STR(name_at("made.so", start + 8), NULL);
    CHECK_STR(name_at("made.so", start + 16), "inner");
}

TEST(data_and_constants_name_no_code)
{
    REQUIRE(assemble(".globl constant\nconstant = 0x1008\n.data\nvariable: .skip 64\n"
                     ".type odd, @function\n.size odd, 64\nodd: .skip 64\n"
                     ".text\n.type f, @function\nf: .skip 64\n.size f, 64\n"));
    CHECK_STR(name_at("made.so", fixture_symbol("made.so", "variable")), NULL);
    CHECK_STR(name_at("made.so", fixture_symbol("made.so", "odd")), NULL);
    uint64_t f = fixture_symbol("made.so", "f");
    CHECK_STR(name_at("made.so", f + 8), "f");
}

TEST(the_inner_of_two_symbols_wins)
{
    REQUIRE(assemble(".text\n.type outer, @function\nouter: .skip 8\n.type inner, @function\n"
                     "inner: .skip 8\n.size inner, 8\n.skip 8\n.size outer, 24\n"));
    uint64_t outer = fixture_symbol("made.so", "outer");
    CHECK_STR(name_at("made.so", outer + 7), "outer");
    CHECK_STR(name_at("made.so", outer + 8), "inner");
    CHECK_STR(name_at("made.so", outer + 15), "inner");
    CHECK_STR(name_at("made.so", outer + 16), "outer");
}

TEST(versions_are_no_part_of_a_name)
{
    fixture_text("v.map", "V1 { local: hidden; };\nV2 { } V1;\n");
    fixture_text("v.s", ".text\n.globl f_old, f_new\n.type f_old, @function\nf_old: .skip 8\n"
                        ".size f_old, 8\n.symver f_old, f@V1, remove\n.type f_new, @function\n"
                        "f_new: .skip 8\n.size f_new, 8\n.symver f_new, f@@V2, remove\n");
    REQUIRE(fixture_run("${CC:-cc} -shared -nostdlib -Wl,--version-script=v.map -o v.so v.s"));
    REQUIRE(fixture_run("nm v.so | grep -q 'f@V1'"));
    uint64_t f = fixture_symbol("v.so", "f@V1");
    CHECK_STR(name_at("v.so", f), "f");
    CHECK_STR(name_at("v.so", f + 8), "f");
}

TEST(a_name_that_is_there_stays)
{
    REQUIRE(assemble(".text\n.type f, @function\nf: .skip 8\n.size f, 8\n"));
    struct symbol_request request = {.vaddr = fixture_symbol("made.so", "f"), .name = "mine"};
    resolve(fixture_path("made.so"), SYMBOLS_SYMTAB, &request, 1, 0);
    CHECK_STR(request.name, "mine");
}

TEST(long_names)
{
    static char text[2 * 1024 * 1024 + 200], name[1024 * 1024 + 1];
    static const unsigned lengths[] = {
        255, 256, 257, 5000, ELF_NAME_BYTES, ELF_NAME_BYTES + 1, 1024 * 1024};
    for (unsigned i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        memset(name, 'x', lengths[i]);
        name[lengths[i]] = '\0';
        snprintf(text, sizeof text, ".text\nstart:\n.type %s, @function\n%s: .skip 8\n", name,
                 name);
        REQUIRE(assemble(text));
        const char *found = name_at("made.so", fixture_symbol("made.so", "start"));
        REQUIRE(found != NULL);
        if (lengths[i] <= ELF_NAME_BYTES)
            CHECK_U64(strlen(found), lengths[i]);
        else
            CHECK_STR(found + ELF_NAME_CUT_BYTES, "[cut]");
    }
}

TEST(files_without_the_table)
{
    struct symbol_request request = {.vaddr = 0x1000};
    REQUIRE(assemble(".text\n.globl f\nf: ret\n"));
    REQUIRE(fixture_run("strip -o stripped.so made.so"));
    resolve(fixture_path("stripped.so"), SYMBOLS_SYMTAB, &request, 1, -ENOENT);
    REQUIRE(fixture_run("${CC:-cc} -nostdlib -static -Wl,-e,f -o static made.s"));
    resolve(fixture_path("static"), SYMBOLS_DYNSYM, &request, 1, -ENOENT);
}

/* A sparse file, which costs its maker nothing, would keep its reader for hours. */
TEST(a_table_of_any_size_is_not_read)
{
    struct symbol_request request = {.vaddr = 0x1000};
    size_t bytes;
    REQUIRE(assemble(".text\n.globl f\nf: ret\n"));
    uint8_t *file = fixture_load(fixture_path("made.so"), &bytes);
    Elf64_Ehdr *header = (Elf64_Ehdr *)file;
    Elf64_Shdr *sections = (Elf64_Shdr *)(file + header->e_shoff);
    uint64_t table_bytes = (256u << 20) + sizeof(Elf64_Sym);
    for (unsigned i = 0; i < header->e_shnum; i++)
        if (sections[i].sh_type == SHT_SYMTAB)
            sections[i].sh_size = table_bytes;
    fixture_write("sparse.so", file, bytes);
    free(file);
    REQUIRE(truncate(fixture_path("sparse.so"), (off_t)(bytes + table_bytes)) == 0);
    resolve(fixture_path("sparse.so"), SYMBOLS_SYMTAB, &request, 1, -ENOENT);
}

TEST(half_a_million_symbols_take_well_under_a_second)
{
    enum { SYMBOLS = 500000, REQUESTS = 5000 };
    static struct symbol_request requests[REQUESTS];
    struct timespec start, end;
    FILE *source = fopen(fixture_path("many.s"), "w");
    REQUIRE(source != NULL);
    for (unsigned i = 0; i < SYMBOLS; i++)
        fprintf(source,
                ".globl function_%u\n.type function_%u, @function\nfunction_%u: .byte 195\n"
                ".size function_%u, 1\n",
                i, i, i, i);
    fclose(source);
    REQUIRE(fixture_run("${CC:-cc} -nostdlib -static -Wl,-e,function_0 -o many many.s"));
    uint64_t first = fixture_symbol("many", "function_0");
    for (unsigned i = 0; i < REQUESTS; i++)
        requests[i].vaddr = first + i * 97;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    resolve(fixture_path("many"), SYMBOLS_SYMTAB, requests, REQUESTS, 0);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    printf("# %ld us\n",
           (end.tv_sec - start.tv_sec) * 1000000 + (end.tv_nsec - start.tv_nsec) / 1000);
    for (unsigned i = 0; i < REQUESTS; i++) {
        char name[32];
        snprintf(name, sizeof name, "function_%u", i * 97);
        CHECK_STR(requests[i].name, name);
    }
    CHECK(end.tv_sec - start.tv_sec < 2); /* the sanitizers' time is in it */
}

TEST(every_allocation_may_fail)
{
    REQUIRE(assemble(".text\n.type f, @function\nf: .skip 8\n.size f, 8\n.type g, @function\n"
                     "g: .skip 8\n.size g, 8\n"));
    uint64_t f = fixture_symbol("made.so", "f");
    struct arena *const failing[] = {&names, &scratch};
    struct elf_file file;
    int error, failures = 0, fd = fixture_open(&file, fixture_path("made.so"), &names, &error);
    REQUIRE(fd >= 0);
    for (unsigned which = 0; which < 2; which++) {
        for (int nth = 1; nth < 12; nth++) {
            struct symbol_request requests[2] = {{.vaddr = f}, {.vaddr = f + 8}};
            failing[which]->fail_countdown = nth;
            symbols_resolve(&file, SYMBOLS_SYMTAB, NULL, requests, 2, &names, &scratch);
            failing[which]->fail_countdown = 0;
            failures += requests[0].name == NULL || requests[1].name == NULL;
            CHECK(requests[0].name == NULL || strcmp(requests[0].name, "f") == 0);
            CHECK(requests[1].name == NULL || strcmp(requests[1].name, "g") == 0);
            CHECK_U64(scratch.mapped_bytes, 0);
        }
    }
    CHECK_I64(failures, 2 + 6); /* the copies; chunk, sections, choices, starts and both names */
    close(fd);
}
