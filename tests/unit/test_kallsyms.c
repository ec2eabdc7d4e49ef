/* kallsyms on texts made here and on the kernel's own. */
#include "kallsyms.h"

#include <errno.h>

#include "elf_fixture.h"

static struct arena names, scratch;

static int resolve(const char *text, struct symbol_request *requests, size_t count)
{
    fixture_text("kallsyms", text);
    int error = kallsyms_resolve(fixture_path("kallsyms"), requests, count, &names, &scratch);
    CHECK_U64(scratch.mapped_bytes, 0);
    return error;
}

TEST(the_symbol_before_an_address)
{
    struct symbol_request requests[] = {
        {.vaddr = 0xffff000000000fff}, {.vaddr = 0xffff000000001000},
        {.vaddr = 0xffff000000001001}, {.vaddr = 0xffff000000001fff},
        {.vaddr = 0xffff000000002000}, {.vaddr = 0xffffffffc0000010}};
    CHECK_I64(resolve("ffff000000001000 T first\n"
                      "ffff000000001800 d data\n"
                      "ffff000000002000 t second\n"
                      "ffff000000003000 W third\n"
                      "ffffffffc0000000 t in_module\t[module]\n",
                      requests, 6),
              0);
    CHECK_STR(requests[0].name, NULL);
    CHECK_STR(requests[1].name, "first");
    CHECK_STR(requests[2].name, "first");
    CHECK_STR(requests[3].name, "first");
    CHECK_U64(requests[3].start_vaddr, 0xffff000000001000);
    CHECK_STR(requests[4].name, "second");
    CHECK_STR(requests[5].name, "in_module");
    CHECK_U64(requests[5].start_vaddr, 0xffffffffc0000000);
}

TEST(the_order_of_lines_does_not_matter)
{
    struct symbol_request requests[] = {{.vaddr = 0x1800}, {.vaddr = 0x2800}, {.vaddr = 0x2900}};
    CHECK_I64(
        resolve("0000000000002000 T b\n0000000000003000 T c\n0000000000001000 T a\n", requests, 3),
        0);
    CHECK_STR(requests[0].name, "a");
    CHECK_STR(requests[1].name, "b");
    CHECK_STR(requests[2].name, "b");
}

TEST(aliases_with_fewer_underscores_are_preferred)
{
    struct symbol_request request = {.vaddr = 0x1008};
    CHECK_I64(resolve("0000000000001000 T __do_work\n0000000000001000 T do_work\n"
                      "0000000000001000 T _do_work\n0000000000001000 T do_other\n",
                      &request, 1),
              0);
    CHECK_STR(request.name, "do_work");
}

TEST(of_aliases_as_good_the_shorter_is_preferred)
{
    struct symbol_request request = {.vaddr = 0x1008};
    CHECK_I64(resolve("0000000000001000 T __pi_copy_page\n0000000000001000 T copy_page_long\n"
                      "0000000000001000 T copy_page\n0000000000001000 T copy_pagf\n",
                      &request, 1),
              0);
    CHECK_STR(request.name, "copy_page");
}

TEST(padding_is_no_function)
{
    struct symbol_request requests[] = {{.vaddr = 0x1ff4}, {.vaddr = 0x2004}};
    CHECK_I64(resolve("0000000000001000 T before\n0000000000001ff0 t __pfx_f\n"
                      "0000000000002000 T f\n",
                      requests, 2),
              0);
    CHECK_STR(requests[0].name, "before");
    CHECK_STR(requests[1].name, "f");
}

/* Per-CPU data at 0 hides nothing; a function there does, and nothing more is read. */
TEST(hidden_addresses_name_nothing)
{
    struct symbol_request request = {.vaddr = 0xffff000000001000};
    CHECK_I64(resolve("0000000000000000 T first\nffff000000001000 T second\n", &request, 1),
              -ENOENT);
    CHECK_STR(request.name, NULL);
    CHECK_I64(resolve("0000000000000000 A first\nffff000000001000 T second\n", &request, 1), 0);
    CHECK_STR(request.name, "second");
}

TEST(a_reader_tells_owners_and_when_it_needs_more)
{
    static struct kallsyms kallsyms;
    struct kallsyms_symbol symbol;
    fixture_text("kallsyms", "0000000000001000 T own\n0000000000002000 t its\t[module]\n");
    REQUIRE(kallsyms_open(&kallsyms, fixture_path("kallsyms")) == 0);
    CHECK(!kallsyms_next(&kallsyms, &symbol));
    CHECK_I64(kallsyms_fill(&kallsyms), 23 + 32);
    REQUIRE(kallsyms_next(&kallsyms, &symbol));
    CHECK_U64(symbol.address, 0x1000);
    CHECK_U64(symbol.name_length, 3);
    CHECK_U64(symbol.owner_length, 0);
    REQUIRE(kallsyms_next(&kallsyms, &symbol));
    CHECK_U64(symbol.name_length, 3);
    CHECK_U64(symbol.owner_length, 8);
    CHECK_MEM(symbol.owner, "[module]", 8);
    CHECK(!kallsyms_next(&kallsyms, &symbol));
    CHECK_I64(kallsyms_fill(&kallsyms), 0);
    kallsyms_close(&kallsyms);
}

TEST(an_address_far_behind_is_nobody_s)
{
    struct symbol_request requests[] = {{.vaddr = 0x1000 + KALLSYMS_FUNCTION_BYTES - 1},
                                        {.vaddr = 0x1000 + KALLSYMS_FUNCTION_BYTES}};
    CHECK_I64(resolve("0000000000001000 T a\n", requests, 2), 0);
    CHECK_STR(requests[0].name, "a");
    CHECK_STR(requests[1].name, NULL);
}

TEST(lines_that_make_no_sense)
{
    static char text[300000];
    struct symbol_request request = {.vaddr = 0x1008};
    memset(text, 'x', sizeof text - 1);
    text[200000] = '\n';
    static const char lines[] = "\n\nT\n0000000000001004 T\n0000000000001004 T \nghij T a\n"
                                "0000000000001004\tT\tb\n0000000000001004 T c\n";
    memcpy(text, lines, sizeof lines - 1);
    strcpy(text + 200001, "0000000000001006 T behind");
    CHECK_I64(resolve(text, &request, 1), 0);
    CHECK_STR(request.name, "c"); /* the last line has no end */
    strcat(text, "\n");
    request.name = NULL;
    CHECK_I64(resolve(text, &request, 1), 0);
    CHECK_STR(request.name, "behind");
}

/* Lines across the reads of 16 KiB. */
TEST(a_long_file)
{
    enum { LINES = 20000 };
    static char text[LINES * 32];
    static struct symbol_request requests[LINES];
    char *at = text;
    for (unsigned i = 0; i < LINES; i++) {
        at += sprintf(at, "%016x T f_%u\n", 0x100000 + i * 16, i);
        requests[i].vaddr = 0x100000 + i * 16 + 7;
    }
    CHECK_I64(resolve(text, requests, LINES), 0);
    for (unsigned i = 0; i < LINES; i++) {
        char name[32];
        sprintf(name, "f_%u", i);
        CHECK_STR(requests[i].name, name);
    }
}

TEST(the_kernel_s_own)
{
    char line[512], name[256], expected[256] = "", type;
    unsigned long address = 0, wanted = 0;
    FILE *kallsyms = fopen(KALLSYMS_PATH, "r");
    if (kallsyms == NULL)
        SKIP("no /proc/kallsyms");
    while (fgets(line, sizeof line, kallsyms) != NULL) {
        if (sscanf(line, "%lx %c %255s", &address, &type, name) == 3 &&
            strcmp(name, "vfs_read") == 0) {
            wanted = address;
            strcpy(expected, name);
        }
    }
    fclose(kallsyms);
    struct symbol_request request = {.vaddr = wanted + 1};
    int error = kallsyms_resolve(KALLSYMS_PATH, &request, 1, &names, &scratch);
    if (wanted == 0) {
        CHECK_I64(error, -ENOENT);
        SKIP("the kernel hides its addresses");
    }
    CHECK_I64(error, 0);
    CHECK_STR(request.name, expected);
    CHECK_U64(request.start_vaddr, wanted);
}

TEST(errors)
{
    struct symbol_request request = {.vaddr = 1};
    CHECK_I64(kallsyms_resolve("/nothing/here", &request, 1, &names, &scratch), -ENOENT);
    CHECK_I64(kallsyms_resolve("/", &request, 1, &names, &scratch), -EISDIR);
    for (int nth = 1; nth <= 2; nth++) {
        scratch.fail_countdown = nth;
        CHECK_I64(resolve("0000000000000001 T a\n", &request, 1), -ENOMEM);
    }
    names.fail_countdown = 1;
    CHECK_I64(resolve("0000000000000001 T a\n", &request, 1), -ENOMEM);
    CHECK_STR(request.name, NULL);
}
