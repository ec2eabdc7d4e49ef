/* kernel_symbols: built in steps and shared, it says what the text says; on texts made here and on
 * the kernel's own. */
#include "kernel_symbols.h"

#include <stdlib.h>

#include "elf_fixture.h"
#include "kallsyms.h"
#include "kernel_cache.h"

static struct arena names, scratch;
static char cache[64];

static void cache_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", cache);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", cache);
}

/* An empty directory in shared memory; where there is none, one that is not there: no sharing. */
static const char *cache_directory(void)
{
    char path[128];
    if (cache[0] == '\0') {
        strcpy(cache, "/dev/shm/selfsample-unit-XXXXXX");
        if (mkdtemp(cache) != NULL)
            atexit(cache_remove);
        else
            strcpy(cache, "/nothing/here");
    }
    snprintf(path, sizeof path, "%s/%s%u", cache, KERNEL_CACHE_NAME, geteuid());
    unlink(path);
    return cache;
}

/* Symbols that are read from TEXT. */
static void symbols_of(struct kernel_symbols *symbols, const char *text)
{
    fixture_text("kallsyms", text);
    fixture_text("boot_id", "an-id\n");
    fixture_text("modules", "");
    const struct kernel_symbols_paths paths = {strdup(fixture_path("kallsyms")),
                                               strdup(fixture_path("boot_id")),
                                               strdup(fixture_path("modules")), cache_directory()};
    kernel_symbols_init(symbols, &paths);
}

static void symbols_end(struct kernel_symbols *symbols)
{
    CHECK_U64(symbols->arena.mapped_bytes, 0);
    CHECK_U64(scratch.mapped_bytes, 0);
    free((char *)symbols->paths.kallsyms);
    free((char *)symbols->paths.boot_id);
    free((char *)symbols->paths.modules);
    kernel_symbols_close(symbols);
}

static int resolve(struct kernel_symbols *symbols, struct symbol_request *requests, size_t count)
{
    return kernel_symbols_resolve(symbols, requests, count, &names, &scratch);
}

/* What one process finds at ADDRESS. */
static const char *name_at(struct kernel_symbols *symbols, uint64_t address)
{
    struct symbol_request request = {.vaddr = address};
    resolve(symbols, &request, 1);
    return request.name;
}

static const char text[] = "ffffffff81000000 T _stext\n"
                           "ffffffff81000000 T entry\n"
                           "ffffffff81000800 d data\n"
                           "ffffffff81001000 t work\n"
                           "ffffffff81001ff0 t __pfx_rest\n"
                           "ffffffff81002000 t rest\n"
                           "ffffffffc0105000 t second_of_b\t[b]\n"
                           "ffffffffc0103000 t first_of_b\t[b]\n"
                           "ffffffffc0003010 t only_of_a\t[a]\n"
                           "ffffffffc0004000 t bpf_prog_1\t[bpf]\n";

TEST(functions_of_the_kernel_and_of_modules)
{
    struct kernel_symbols symbols;
    struct symbol_request requests[] = {
        {.vaddr = 0xffffffff81000004}, {.vaddr = 0xffffffff81001004}, {.vaddr = 0xffffffff81001ff4},
        {.vaddr = 0xffffffff81002004}, {.vaddr = 0xffffffffc0003010}, {.vaddr = 0xffffffffc0103001},
        {.vaddr = 0xffffffffc0104fff}, {.vaddr = 0xffffffffc0105001}};
    static const char *const expected[] = {"entry",     "work",       "work",       "rest",
                                           "only_of_a", "first_of_b", "first_of_b", "second_of_b"};
    symbols_of(&symbols, text);
    CHECK_I64(resolve(&symbols, requests, 8), 0);
    CHECK(symbols.state == KERNEL_SYMBOLS_READY);
    for (unsigned i = 0; i < 8; i++)
        CHECK_STR(requests[i].name, expected[i]);
    CHECK_U64(requests[2].start_vaddr, 0xffffffff81001000);
    CHECK_U64(requests[7].start_vaddr, 0xffffffffc0105000);
    CHECK(requests[1].name == requests[2].name);
    symbols_end(&symbols);
}

/* Of three names at one address, near each other or not, in whatever order; and of a module that
 * begins where nobody's page would have. */
TEST(one_name_for_an_address)
{
    struct kernel_symbols symbols;
    symbols_of(&symbols, "ffffffff81000000 T entry\n"
                         "ffffffff81000000 T __pi_entry\n"
                         "ffffffff81000000 T _stext\n"
                         "ffffffffc0004000 t of_b\t[b]\n"
                         "ffffffffc0003010 t _of_a\t[a]\n"
                         "ffffffffc0003f00 t last_of_a\t[a]\n"
                         "ffffffffc0003010 t of_a\t[a]\n"
                         "ffffffffc0003010 t of_a_too\t[a]\n");
    CHECK_STR(name_at(&symbols, 0xffffffff81000004), "entry");
    CHECK_STR(name_at(&symbols, 0xffffffffc0003014), "of_a");
    CHECK_STR(name_at(&symbols, 0xffffffffc0004000), "of_b");
    struct kernel_function function;
    CHECK(kernel_table_find(&symbols.table, 0xffffffffc0004000, &function));
    CHECK_U64(symbols.table.header.entry_count, 6); /* four functions, two of nobody's */
    symbols_end(&symbols);
}

/* The table leaves them out, so the text is asked. */
TEST(what_comes_and_goes)
{
    struct kernel_symbols symbols;
    symbols_of(&symbols, text);
    CHECK_STR(name_at(&symbols, 0xffffffffc0004004), "bpf_prog_1");
    CHECK(symbols.state == KERNEL_SYMBOLS_READY);
    struct kernel_function function;
    CHECK(!kernel_table_find(&symbols.table, 0xffffffffc0004004, &function));
    CHECK(!kernel_table_find(&symbols.table, 0xffffffff81003000, &function));
    symbols_end(&symbols);
}

/* A function that is longer than a page and the last of its owner is found by the text. */
TEST(a_long_last_function)
{
    struct kernel_symbols symbols;
    symbols_of(&symbols, text);
    CHECK_STR(name_at(&symbols, 0xffffffffc0106800), "second_of_b");
    symbols_end(&symbols);
}

TEST(the_second_process_does_not_read_the_text)
{
    struct kernel_symbols first, second;
    symbols_of(&first, text);
    CHECK_STR(name_at(&first, 0xffffffff81001004), "work");
    if (access(cache, F_OK) != 0)
        SKIP("no shared memory to write to");
    kernel_symbols_init(&second, &first.paths);
    fixture_text("kallsyms", "ffffffff81001000 t nothing_like_it\n");
    CHECK_STR(name_at(&second, 0xffffffff81001004), "work");
    kernel_symbols_close(&second);

    fixture_text("modules", "ext4 1 2 - Live 0xffffffffc0a00000\n"); /* one was loaded */
    kernel_symbols_init(&second, &first.paths);
    CHECK_STR(name_at(&second, 0xffffffff81001004), "nothing_like_it");
    kernel_symbols_close(&second);
    symbols_end(&first);
}

TEST(a_table_made_while_modules_changed_is_not_shared)
{
    struct kernel_symbols symbols, second;
    symbols_of(&symbols, text);
    kernel_symbols_step(&symbols, 1);
    CHECK(symbols.state == KERNEL_SYMBOLS_READING);
    fixture_text("modules", "ext4 1 2 - Live 0xffffffffc0a00000\n");
    CHECK_STR(name_at(&symbols, 0xffffffff81001004), "work");
    fixture_text("kallsyms", "ffffffff81001000 t nothing_like_it\n");
    for (unsigned i = 0; i < 2; i++) {
        fixture_text("modules", i == 0 ? "" : "ext4 1 2 - Live 0xffffffffc0a00000\n");
        kernel_symbols_init(&second, &symbols.paths);
        CHECK_STR(name_at(&second, 0xffffffff81001004), "nothing_like_it");
        kernel_symbols_close(&second);
    }
    symbols_end(&symbols);
}

TEST(what_is_held_is_not_shared)
{
    struct kernel_symbols symbols, second;
    symbols_of(&symbols, text);
    kernel_symbols_hold(&symbols);
    CHECK(symbols.state == KERNEL_SYMBOLS_READING);
    CHECK_STR(name_at(&symbols, 0xffffffff81001004), "work");
    fixture_text("kallsyms", "ffffffff81001000 t nothing_like_it\n");
    kernel_symbols_init(&second, &symbols.paths);
    CHECK_STR(name_at(&second, 0xffffffff81001004), "nothing_like_it");
    kernel_symbols_close(&second);
    symbols_end(&symbols);
}

/* 20,000 functions whose order is turned round in the second half, as one module's may be. */
TEST(steps_of_any_size_make_the_same_table)
{
    enum { COUNT = 20000 };
    static char long_text[COUNT * 40];
    static const size_t steps[] = {1, 5000, 100000, SIZE_MAX};
    char *at = long_text;
    for (unsigned i = 0; i < COUNT; i++) {
        unsigned number = i < COUNT / 2 ? i : COUNT + COUNT / 2 - 1 - i;
        at += sprintf(at, "%016llx t f%x%s\n", 0xffffffff81000000ull + number * 16, number,
                      i < COUNT / 2 ? "" : "\t[m]");
    }
    for (unsigned k = 0; k < 4; k++) {
        struct kernel_symbols symbols;
        unsigned taken = 0;
        symbols_of(&symbols, long_text);
        for (; symbols.state != KERNEL_SYMBOLS_READY && taken < COUNT; taken++)
            kernel_symbols_step(&symbols, steps[k]);
        CHECK(taken > (k == 0 ? 30 : 0) && taken <= (k == 3 ? 1 : COUNT - 1));
        for (unsigned number = 0; number < COUNT; number += 101) {
            char name[16];
            sprintf(name, "f%x", number);
            CHECK_STR(name_at(&symbols, 0xffffffff81000000ull + number * 16 + 15), name);
        }
        symbols_end(&symbols);
    }
}

/* Read at once to the end, for nothing can be had. */
TEST(hidden_addresses)
{
    struct kernel_symbols symbols;
    struct symbol_request request = {.vaddr = 0xffffffff81000004};
    symbols_of(&symbols, "0000000000000000 A data\n0000000000000000 T _stext\n"
                         "0000000000000000 T more\n");
    CHECK_I64(resolve(&symbols, &request, 1), -ENOENT);
    CHECK(symbols.state == KERNEL_SYMBOLS_HIDDEN);
    CHECK_STR(request.name, NULL);
    symbols_end(&symbols);
}

TEST(texts_that_make_no_table)
{
    static const char *const texts[] = {"", "\n\n", "ffffffff81000000 d data\n",
                                        "ffffffffc0004000 t bpf_prog_1\t[bpf]\n"};
    for (unsigned i = 0; i < 4; i++) {
        struct kernel_symbols symbols;
        symbols_of(&symbols, texts[i]);
        CHECK_STR(name_at(&symbols, 0xffffffffc0004004), i == 3 ? "bpf_prog_1" : NULL);
        CHECK(symbols.state == KERNEL_SYMBOLS_FAILED);
        symbols_end(&symbols);
    }
    struct kernel_symbols symbols;
    struct symbol_request request = {.vaddr = 1};
    const struct kernel_symbols_paths nowhere = {"/nothing", "/nothing", "/nothing", "/nothing"};
    kernel_symbols_init(&symbols, &nowhere);
    CHECK_I64(resolve(&symbols, &request, 1), -ENOENT);
    kernel_symbols_close(&symbols);
}

/* Addresses at both ends of all there are, and a kernel 4 GB wide. */
TEST(extreme_addresses)
{
    struct kernel_symbols symbols;
    symbols_of(&symbols, "0000000000000001 T low\nffffffffffffffff T high\n");
    CHECK_STR(name_at(&symbols, 1), "low");
    CHECK_STR(name_at(&symbols, UINT64_MAX), "high");
    symbols_end(&symbols);
    symbols_of(&symbols, "fffffffffffffff0 T high\nfffffffffffffff8 T higher\n");
    CHECK_STR(name_at(&symbols, UINT64_MAX), "higher");
    CHECK_STR(name_at(&symbols, UINT64_MAX - 8), "high");
    symbols_end(&symbols);
}

TEST(more_symbols_than_a_table_may_have)
{
    struct kernel_symbols symbols;
    char *many = malloc((size_t)(KERNEL_TABLE_ENTRIES_MAX + 9) * 24), *at = many;
    for (unsigned i = 0; i < KERNEL_TABLE_ENTRIES_MAX + 1; i++)
        at += sprintf(at, "%016llx t f\n", 0xffffffff81000000ull + i * 16);
    symbols_of(&symbols, many);
    free(many);
    CHECK_STR(name_at(&symbols, 0xffffffff81000004), "f");
    CHECK(symbols.state == KERNEL_SYMBOLS_FAILED);
    symbols_end(&symbols);
}

TEST(memory_that_is_refused)
{
    for (int nth = 1; nth <= 4; nth++) {
        struct kernel_symbols symbols;
        symbols_of(&symbols, text); /* its modules are out of order: sorting takes the fourth */
        symbols.arena.fail_countdown = nth;
        CHECK_STR(name_at(&symbols, 0xffffffffc0103001), "first_of_b");
        CHECK(symbols.state == KERNEL_SYMBOLS_FAILED);
        symbols_end(&symbols);
    }
    struct kernel_symbols symbols;
    struct symbol_request request = {.vaddr = 0xffffffff81001004};
    symbols_of(&symbols, text);
    names.fail_countdown = 1;
    CHECK_I64(resolve(&symbols, &request, 1), -ENOMEM);
    CHECK_STR(request.name, NULL);
    symbols_end(&symbols);
}

/* Every 50th function of the running kernel, by its first byte, against the text. */
TEST(the_kernel_s_own)
{
    struct kernel_symbols symbols;
    struct kernel_symbols_paths paths = kernel_symbols_system;
    char line[512], name[256], type;
    unsigned long address, checked = 0, seen = 0;
    paths.cache_directory = cache_directory();
    kernel_symbols_init(&symbols, &paths);
    FILE *kallsyms = fopen(KALLSYMS_PATH, "r");
    if (kallsyms == NULL)
        SKIP("no /proc/kallsyms");
    while (fgets(line, sizeof line, kallsyms) != NULL && symbols.state != KERNEL_SYMBOLS_HIDDEN) {
        if (sscanf(line, "%lx %c %255s", &address, &type, name) != 3 || address == 0 ||
            strchr("tTwW", type) == NULL || strchr(line, '[') != NULL ||
            strncmp(name, "__pfx_", 6) == 0 || seen++ % 50 != 0)
            continue;
        struct symbol_request request = {.vaddr = address};
        resolve(&symbols, &request, 1);
        CHECK_U64(request.start_vaddr, address);
        checked += request.name != NULL && strcmp(request.name, name) == 0;
    }
    fclose(kallsyms);
    kernel_symbols_close(&symbols);
    if (seen == 0)
        SKIP("the kernel hides its addresses");
    CHECK(checked * 50 > seen * 9 / 10); /* the others are aliases */
}
