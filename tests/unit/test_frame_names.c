/* frame_names: names for places in this process, in libraries of all kinds, and for what is none.
 */
#include "frame_names.h"

#include <dlfcn.h>
#include <sys/mman.h>

#include "elf_fixture.h"

#include "builder_fixture.h"
#include "kernel_symbols.h"

static struct arena scratch;
static struct kernel_symbols kernel;
static struct frame_names names;
static uint32_t progress;

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static void prepare(void)
{
    fixture_text("kallsyms", "ffffffff81000000 T kernel_one\nffffffff81000100 t kernel;two\n");
    fixture_text("boot_id", "00000000-0000-0000-0000-000000000001\n");
    fixture_text("modules", "");
    static struct kernel_symbols_paths paths;
    paths = (struct kernel_symbols_paths){.kallsyms = fixture_path("kallsyms"),
                                          .boot_id = fixture_path("boot_id"),
                                          .modules = fixture_path("modules"),
                                          .cache_directory = "/nonexistent"};
    builder_prepare();
    kernel_symbols_init(&kernel, &paths);
    progress = 0;
}

static int find(void)
{
    return frame_names_find(&names, &builder, &kernel, &names_arena, &scratch, &progress);
}

static uint32_t code_frame(const void *code)
{
    const struct region *region = modules_find(&modules, address_of(code));
    if (region == NULL)
        return PROFILE_NONE;
    return profile_frame(&profile, region->module, region_link_address(region, address_of(code)));
}

TEST(functions_of_several_modules)
{
    prepare();
    void *libc = dlsym(RTLD_DEFAULT, "qsort");
    const uint32_t frames[] = {code_frame((const char *)find + 1), code_frame(libc),
                               code_frame(prepare), code_frame(find)};
    REQUIRE(find() == 0);
    CHECK_STR(frame_name(&names, frames[0]), "find");
    CHECK_STR(frame_name(&names, frames[1]), "qsort");
    CHECK_STR(frame_name(&names, frames[2]), "prepare");
    CHECK(frame_name(&names, frames[0]) == frame_name(&names, frames[3])); /* one function */
    CHECK(frame_name(&names, 4) == NULL);
    CHECK_U64(scratch.mapped_bytes, 0);
    CHECK(progress >= 2);
    modules_close(&modules);
}

TEST(functions_without_a_name)
{
    REQUIRE(
        fixture_run("printf 'static __attribute__((noinline)) int hidden(int x) { return x * 3; "
                    "}\\nint (*get(void))(int) { return hidden; }\\n' > s.c && ${CC:-cc} -O1 "
                    "-shared -fPIC -s -o 'lib;stripped.so' s.c"));
    void *library = dlopen(fixture_path("lib;stripped.so"), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL);
    int (*(*get)(void))(int) = (int (*(*)(void))(int))dlsym(library, "get");
    const char *hidden = (const char *)get();
    Dl_info info;
    REQUIRE(dladdr(hidden, &info) != 0);
    char expected[64];
    snprintf(expected, sizeof expected, "lib:stripped.so+0x%lx",
             (unsigned long)(address_of(hidden) - address_of(info.dli_fbase)));
    prepare();
    const uint32_t frames[] = {code_frame(hidden), code_frame(hidden + 2),
                               code_frame((const char *)get)};
    REQUIRE(find() == 0);
    CHECK_STR(frame_name(&names, frames[0]), expected);
    CHECK(frame_name(&names, frames[0]) == frame_name(&names, frames[1]));
    CHECK_STR(frame_name(&names, frames[2]), "get");
    modules_close(&modules);
    dlclose(library);
}

TEST(texts_the_kernel_and_the_unknown)
{
    prepare();
    struct thread thread = {.tid = 1, .text = UINT32_MAX, .name = "worker"};
    stack_frames_book(&builder, &thread, "[kernel]", 5); /* makes two texts */
    const uint32_t frames[] = {
        profile_frame(&profile, FRAME_OF_TEXT, 0),
        profile_frame(&profile, FRAME_OF_TEXT, 1),
        profile_frame(&profile, FRAME_OF_TEXT, 99),
        profile_frame(&profile, FRAME_OF_KERNEL, 0xffffffff81000010),
        profile_frame(&profile, FRAME_OF_KERNEL, 0xffffffff81000110),
        profile_frame(&profile, FRAME_OF_KERNEL, 0xffffffff80000000),
        profile_frame(&profile, FRAME_OF_UNKNOWN, 0x1234),
        profile_frame(&profile, 5000, 0x1234), /* no such module */
    };
    static const char *const expected[] = {"worker",         "[kernel]",       "?",
                                           "kernel_one_[k]", "kernel:two_[k]", "[kernel]",
                                           "[unknown]",      "[unknown]"};
    REQUIRE(find() == 0);
    for (unsigned i = 0; i < 8; i++)
        CHECK_STR(frame_name(&names, frames[i]), expected[i]);
    CHECK(!names.kernel_hidden); /* one address without a name is nobody's secret */
    modules_close(&modules);
}

TEST(kernel_addresses_that_are_hidden)
{
    prepare();
    fixture_text("kallsyms", "0000000000000000 T kernel_one\n0000000000000000 t kernel_two\n");
    uint32_t frame = profile_frame(&profile, FRAME_OF_KERNEL, 0xffffffff81000010);
    REQUIRE(find() == 0);
    CHECK_STR(frame_name(&names, frame), "[kernel]");
    CHECK(names.kernel_hidden);
    modules_close(&modules);
}

TEST(code_that_no_file_holds_and_files_that_are_gone)
{
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(code != MAP_FAILED);
    prepare();
    modules_map(&modules, 0x10000, 0x1000, 0, 5, "/nonexistent/lib;gone.so");
    const uint32_t frames[] = {code_frame(code), code_frame((void *)0x10010),
                               code_frame((void *)0x10020)};
    REQUIRE(find() == 0);
    CHECK_STR(frame_name(&names, frames[0]), "[jit]");
    CHECK_STR(frame_name(&names, frames[1]), "[lib:gone.so]");
    CHECK_STR(frame_name(&names, frames[2]), "[lib:gone.so]");
    CHECK(!names.kernel_hidden);
    modules_close(&modules);
    munmap(code, 4096);
}

TEST(nothing_to_name)
{
    prepare();
    CHECK_I64(find(), 0);
    CHECK(frame_name(&names, 0) == NULL);
    CHECK_U64(scratch.mapped_bytes, 0);
}

TEST(every_allocation_may_fail)
{
    struct arena *const failing[] = {&names_arena, &scratch};
    prepare();
    const uint32_t frames[] = {code_frame(prepare), profile_frame(&profile, FRAME_OF_UNKNOWN, 1),
                               profile_frame(&profile, FRAME_OF_KERNEL, 0xffffffff81000010)};
    for (unsigned which = 0; which < 2; which++)
        for (int nth = 1; nth < 25; nth++) {
            failing[which]->fail_countdown = nth;
            int result = find();
            failing[which]->fail_countdown = 0;
            CHECK_U64(scratch.mapped_bytes, 0);
            for (unsigned i = 0; i < 3; i++)
                CHECK(result == -ENOMEM ? frame_name(&names, frames[i]) == NULL
                                        : i != 1 || frame_name(&names, frames[i]) != NULL);
        }
    modules_close(&modules);
}
