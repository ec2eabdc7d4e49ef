/*
 * module_rules against libunwind: for the functions of large real files, what a rule says about the
 * caller's stack pointer, return address and frame pointer is what a step of libunwind finds, from
 * registers and a stack in which every word differs. At the first, the middle and the last byte of
 * every function, and at every byte of a sample of them (stricter than at every instruction).
 *
 * The files are mapped, not loaded: nothing of them runs.
 */
#include "module_rules.h"

#include <fcntl.h>
#include <stddef.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "cfi_section.h"
#include "elf_fixture.h"
#include "sample_fixture.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(TEST_QUICKLY)
#define FUNCTION_STRIDE 12u
#define WHOLE_PLACES    20000u
#else
#define FUNCTION_STRIDE 1u
#define WHOLE_PLACES    100000u /* about as many per file, in functions seen byte by byte */
#endif

#define STACK       0x10000000ull
#define STACK_BYTES (4u << 20)
#define WHOLE_BYTES 2048u /* of a function that is looked at byte by byte */
#define COMPLAINTS  8u

/* libunwind's own types; its header's are bound to the library it is linked with. */
typedef unsigned long step_word;
static int (*set_policy)(void *, int);
static int (*init_remote)(void *, void *, void *);
static int (*step)(void *);
static int (*get_reg)(void *, int, step_word *);

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static uint64_t stack_words[STACK_BYTES / 8];

static void *symbol(const struct unwind_library *library, const char *ending)
{
    for (unsigned i = 0; i < UNWIND_SYMBOLS; i++) {
        size_t length = strlen(unwind_symbol_names[i]), end = strlen(ending);
        if (length > end && strcmp(unwind_symbol_names[i] + length - end, ending) == 0)
            return library->symbols[i];
    }
    return NULL;
}

static void prepare(void)
{
    const struct unwind_library *library = fixture_libunwind();
    if (library == NULL)
        SKIP("libunwind is not installed");
    *(void **)&set_policy = symbol(library, "_set_caching_policy");
    *(void **)&init_remote = symbol(library, "_init_remote");
    *(void **)&step = symbol(library, "_step");
    *(void **)&get_reg = symbol(library, "_get_reg");
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    unwinder_init(&unwinder, library, &modules, &memory, &arena);
    set_policy(library->address_space, 0 /* UNW_CACHE_NONE */);
    /* Every word is an address on the stack, so that what is read of it can be one as well. */
    for (size_t i = 0; i < STACK_BYTES / 8; i++)
        stack_words[i] = STACK + (i * 2654435761u + 12345) % (STACK_BYTES / 8) * 8;
}

/* Maps the file as a loader would, without its code being code, and enters it into the map. */
static bool file_map(const char *path, struct elf_file *file)
{
    int fd = fixture_open(file, path, &arena, &(int){0});
    if (fd < 0)
        return false;
    uint64_t low = UINT64_MAX, high = 0;
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const struct elf_segment *segment = &file->segments[i];
        low = segment->vaddr < low ? segment->vaddr & ~4095ull : low;
        high = segment->vaddr + segment->memory_bytes > high
                   ? segment->vaddr + segment->memory_bytes
                   : high;
    }
    uint8_t *base =
        mmap(NULL, high - low, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    REQUIRE(base != MAP_FAILED);
    struct stat status;
    fstat(fd, &status);
    for (uint32_t i = 0; i < file->segment_count; i++) {
        const struct elf_segment *segment = &file->segments[i];
        uint64_t slack = segment->vaddr % 4096;
        uint8_t *start = base + (segment->vaddr - slack - low);
        if (segment->file_bytes == 0 ||
            mmap(start, segment->file_bytes + slack, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd,
                 (off_t)(segment->offset - slack)) == MAP_FAILED)
            continue;
        if (segment->executable)
            modules_map(&modules, (uint64_t)(uintptr_t)start, segment->file_bytes + slack,
                        segment->offset - slack, status.st_ino, path);
    }
    return true;
}

/* What was compared in one file. */
struct tally {
    uint64_t places, handed_over, wrong, too_deep;
};

static bool stack_word(uint64_t address, uint64_t *word)
{
    if (address < STACK || address > STACK + STACK_BYTES - 8)
        return false;
    memcpy(word, (const uint8_t *)stack_words + (address - STACK), 8);
    return true;
}

struct caller {
    uint64_t sp, ip, fp;
};

/* The caller as the header of cfi_rule.h says; false: beyond the stack. */
static bool follow(const struct cfi_rule *rule, const uint64_t *registers, struct caller *caller)
{
    uint64_t cfa = registers[rule->base] + (uint64_t)(int64_t)rule->offset, at;
    uint64_t words = (uint64_t)(int64_t)rule->words * 8;
    uint64_t moved = (uint64_t)(int64_t)rule->fp_words * 8;
    if (rule->kind == CFI_RULE_MEMORY) {
        /* A sample has nothing from below the stack pointer. */
        if (cfa < registers[ARCH_PERF_INDEX_SP] || !stack_word(cfa, &cfa))
            return false;
        cfa += words;
        at = cfa - 8;
    } else {
        at = cfa + (rule->kind == CFI_RULE_RECORD ? moved + 8 : words);
    }
    caller->sp = cfa;
    caller->fp = registers[ARCH_PERF_INDEX_FP];
    caller->ip = arch_link(registers);
    /* One that has been popped is in no sample either. */
    if (rule->kind != CFI_RULE_LINK &&
        (at < registers[ARCH_PERF_INDEX_SP] || !stack_word(at, &caller->ip)))
        return false;
    if (rule->fp == CFI_FP_AT_CFA)
        return stack_word(cfa + moved, &caller->fp);
    if (rule->fp == CFI_FP_AT_FP)
        return stack_word(caller->fp + moved, &caller->fp);
    if (rule->fp == CFI_FP_LOST)
        caller->fp = 0;
    return true;
}

/* As libc has them. */
#define CONTEXT_AT(member) offsetof(ucontext_t, uc_mcontext.member)
#if defined(__x86_64__)
#define SP_OF  gregs[REG_RSP]
#define IP_OF  gregs[REG_RIP]
#define FP_OF  gregs[REG_RBP]
#define LOADER "ld-linux-x86-64.so.2"
#else
#define SP_OF  sp
#define IP_OF  pc
#define FP_OF  regs[29]
#define LOADER "ld-linux-aarch64.so.1"
#endif

static bool follow_signal(const uint64_t *registers, struct caller *caller)
{
    const uint64_t context = registers[ARCH_PERF_INDEX_SP] + ARCH_SIGNAL_CONTEXT_AT;
    return stack_word(context + CONTEXT_AT(SP_OF), &caller->sp) &&
           stack_word(context + CONTEXT_AT(IP_OF), &caller->ip) &&
           stack_word(context + CONTEXT_AT(FP_OF), &caller->fp);
}

static step_word reg(void *cursor, int number)
{
    step_word value = 0;
    return get_reg(cursor, number, &value) < 0 ? 0 : value;
}

/* libunwind cannot read a frame pointer that was popped, from below the stack pointer; the rule
 * then says that place, too. */
static bool same_fp(void *cursor, const struct cfi_rule *rule, const uint64_t *registers,
                    const struct caller *caller)
{
    step_word value = 0;
    if (get_reg(cursor, ARCH_DWARF_FP, &value) < 0)
        return rule->fp == CFI_FP_LOST ||
               (rule->fp == CFI_FP_AT_CFA &&
                caller->sp + (uint64_t)(int64_t)rule->fp_words * 8 < registers[ARCH_PERF_INDEX_SP]);
    return value == caller->fp;
}

static void complain(struct tally *tally, const char *path, uint64_t vaddr, const char *what,
                     uint64_t ours, uint64_t theirs)
{
    if (tally->wrong++ < COMPLAINTS)
        printf("# %s at %#llx: %s: %#llx, libunwind: %#llx\n", path, (unsigned long long)vaddr,
               what, (unsigned long long)ours, (unsigned long long)theirs);
}

static void compare(struct tally *tally, const char *path, uint64_t ip, uint64_t bias)
{
    static uint64_t cursor[1024]; /* unw_cursor_t has 127 words */
    uint64_t registers[ARCH_PERF_REGISTER_COUNT];
    struct cfi_rule rule;
    for (unsigned i = 0; i < ARCH_PERF_REGISTER_COUNT; i++)
        registers[i] = STACK + STACK_BYTES / 2 + 65536 * i;
    registers[ARCH_PERF_INDEX_SP] = STACK + 65536;
    registers[ARCH_PERF_INDEX_IP] = ip;
    tally->places++;
    REQUIRE(module_rule_find(&modules, ip, false, &rule));
    if (rule.kind == CFI_RULE_HAND_OVER) {
        tally->handed_over++;
        return;
    }
    unwinder.sample = (struct unwind_sample){.registers = registers,
                                             .stack = (const uint8_t *)stack_words + 65536,
                                             .stack_bytes = STACK_BYTES - 65536};
    REQUIRE(init_remote(cursor, unwinder.library->address_space, &unwinder) == 0);
    int result = step(cursor);
    step_word their_ip = reg(cursor, ARCH_DWARF_RETURN);
    struct caller caller;
    if (rule.kind == CFI_RULE_ROOT) {
        if (result > 0 && their_ip != 0)
            complain(tally, path, ip - bias, "root, result", 0, (uint64_t)(int64_t)result);
        return;
    }
    if (rule.kind == CFI_RULE_NONE) {
        complain(tally, path, ip - bias, "no rule, result", 0, (uint64_t)(int64_t)result);
        return;
    }
    bool can = rule.kind == CFI_RULE_SIGNAL ? follow_signal(registers, &caller)
                                            : follow(&rule, registers, &caller);
    if (!can || result < 0) {
        tally->too_deep++;
        if (can)
            complain(tally, path, ip - bias, "readable, result", 0, (uint64_t)(int64_t)result);
        return;
    }
    if (caller.sp != reg(cursor, ARCH_DWARF_SP))
        complain(tally, path, ip - bias, "CFA", caller.sp, reg(cursor, ARCH_DWARF_SP));
    else if (caller.ip != their_ip)
        complain(tally, path, ip - bias, "return address", caller.ip, their_ip);
    else if (!same_fp(cursor, &rule, registers, &caller))
        complain(tally, path, ip - bias, "frame pointer", caller.fp, reg(cursor, ARCH_DWARF_FP));
}

/* Looks at [START, END), link-time addresses: byte by byte or at three places. */
static void compare_function(struct tally *tally, const char *path, uint64_t start, uint64_t end,
                             bool every_byte, uint64_t bias)
{
    uint64_t middle = start + (end - start) / 2;
    compare(tally, path, middle + bias, bias);
    if (every_byte && end - start > WHOLE_BYTES) { /* prologue and epilogue */
        for (uint64_t at = end - WHOLE_BYTES / 8; at < end; at++)
            compare(tally, path, at + bias, bias);
        end = start + WHOLE_BYTES;
    }
    if (!every_byte)
        compare(tally, path, end - 1 + bias, bias);
    for (uint64_t at = start; at < (every_byte ? end : start + 1); at++)
        compare(tally, path, at + bias, bias);
}

static void compare_file(const char *path)
{
    struct elf_file file;
    struct cfi_sections all;
    struct tally tally = {0};
    set_policy(unwinder.library->address_space, 0);
    if (!file_map(path, &file) || cfi_sections_load(&all, &file, &arena) != 0) {
        printf("# %s: cannot be read\n", path);
        return;
    }
    uint32_t functions = 0, whole = 1 + all.order_count / (WHOLE_PLACES / 128);
    for (uint32_t i = 0; i < all.order_count; i += FUNCTION_STRIDE, functions++) {
        const struct cfi_fde *fde = &all.fdes[all.order[i]].fde;
        const struct region *region = NULL;
        for (uint32_t r = 0; r < modules.region_count && region == NULL; r++) {
            struct region *candidate = modules_find(&modules, modules.regions[r].start);
            if (strcmp(modules_at(&modules, candidate->module)->path, path) == 0 &&
                fde->start_vaddr + candidate->bias >= candidate->start &&
                fde->end_vaddr + candidate->bias <= candidate->end)
                region = candidate;
        }
        if (region != NULL)
            compare_function(&tally, path, fde->start_vaddr, fde->end_vaddr, functions % whole == 0,
                             region->bias);
    }
    printf("# %s: %u of %u functions, %llu places, %llu wrong, handed over %.3f %%\n", path,
           functions, all.order_count, (unsigned long long)tally.places,
           (unsigned long long)tally.wrong,
           100.0 * (double)tally.handed_over / (double)(tally.places + !tally.places));
    CHECK(tally.places > 0);
    CHECK_U64(tally.wrong, 0);
    CHECK(tally.handed_over * 50 <= tally.places);
    CHECK(tally.too_deep * 50 <= tally.places);
    modules_close(&modules);
}

/* Its table is made up where it was first seen; as a plug-in that was loaded again it is elsewhere.
 */
TEST(without_a_search_table_at_two_addresses)
{
    struct elf_file file;
    struct cfi_sections all;
    struct tally tally = {0};
    const char *path = fixture_path("plain.so");
    prepare();
    set_policy(unwinder.library->address_space, 0);
    fixture_text("plain.c", "int callee(int);\nint caller(int x) { return callee(x) + 1; }\n"
                            "int second(int x) { return caller(x) - caller(2); }\n");
    REQUIRE(fixture_run("${CC:-cc} -O1 -shared -fPIC -fasynchronous-unwind-tables "
                        "-Wl,--no-eh-frame-hdr -o plain.so plain.c"));
    REQUIRE(file_map(path, &file) && file_map(path, &file));
    REQUIRE(cfi_sections_load(&all, &file, &arena) == 0);
    REQUIRE(modules_count(&modules) == 1 && modules.region_count == 2);
    for (uint32_t r = 0; r < modules.region_count; r++) {
        const struct region *region = modules_find(&modules, modules.regions[r].start);
        CHECK(modules_at(&modules, region->module)->table_base != 0);
        for (uint32_t i = 0; i < all.order_count; i++) {
            const struct cfi_fde *fde = &all.fdes[all.order[i]].fde;
            compare_function(&tally, path, fde->start_vaddr, fde->end_vaddr, true, region->bias);
        }
    }
    CHECK(tally.places > tally.handed_over);
    CHECK_U64(tally.wrong, 0);
    modules_close(&modules);
}

static void compare_library(const char *name)
{
    const char *path = fixture_library(name);
    prepare();
    if (path[0] != '/')
        SKIP("not installed");
    compare_file(path);
}

static void compare_program(const char *name)
{
    char path[512] = "";
    FILE *output = fixture_output("readlink -f \"$(command -v %s)\"", name);
    if (fgets(path, sizeof path, output) != NULL)
        path[strcspn(path, "\n")] = '\0';
    pclose(output);
    prepare();
    if (path[0] != '/')
        SKIP("not installed");
    compare_file(path);
}

TEST(libc)
{
    compare_library("libc.so.6");
}

TEST(the_loader)
{
    compare_library(LOADER);
}

TEST(libstdcxx)
{
    compare_library("libstdc++.so.6");
}

TEST(openssl)
{
    compare_library("libcrypto.so.3");
}

TEST(python3)
{
    compare_program("/usr/bin/python3");
}

TEST(node)
{
    compare_program("node");
}

TEST(clang)
{
    compare_library("libclang-cpp.so.14");
}
