/* modules: this process's own map against nm and readlink, made-up maps, files that changed. */
#include "modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "elf_fixture.h"
#include "refusal.h"

static struct arena arena;
static struct app_memory memory;

static uint64_t address_of(const void *at)
{
    return (uint64_t)(uintptr_t)at;
}

static struct modules empty(void)
{
    struct modules modules;
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, address_of(modules_init));
    return modules;
}

static struct modules scanned(void)
{
    struct modules modules = empty();
    CHECK_I64(modules_scan(&modules), 0);
    return modules;
}

static const char *program(void)
{
    static char path[512];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    path[length > 0 ? length : 0] = '\0';
    return path;
}

TEST(a_function_of_the_program)
{
    struct modules modules = scanned();
    struct region *region = modules_find(&modules, address_of(program));
    REQUIRE(region != NULL && region->bias_known);
    const struct module *module = modules_at(&modules, region->module);
    CHECK_U64(module->kind, MODULE_FILE);
    CHECK(module->has_elf && module->ours);
    CHECK_STR(module->path, program());
    CHECK_U64(region_link_address(region, address_of(program)),
              fixture_symbol(program(), "program"));
    modules_close(&modules);
    CHECK_I64(module->fd, -1);
}

TEST(a_function_of_libc)
{
    struct modules modules = scanned();
    Dl_info info;
    void *function = dlsym(RTLD_DEFAULT, "qsort");
    REQUIRE(function != NULL && dladdr(function, &info) != 0);
    struct region *region = modules_find(&modules, address_of(function));
    REQUIRE(region != NULL);
    const struct module *module = modules_at(&modules, region->module);
    struct stat loaded, found; /* an emulator may have its files below another path */
    REQUIRE(stat(info.dli_fname, &loaded) == 0 && stat(module->path, &found) == 0);
    CHECK_U64(found.st_ino, loaded.st_ino);
    CHECK(module->has_elf && !module->ours);
    CHECK_U64(region_link_address(region, address_of(function)),
              address_of(function) - address_of(info.dli_fbase));
    modules_close(&modules);
}

TEST(the_vdso)
{
    uint64_t vdso = getauxval(AT_SYSINFO_EHDR);
    if (vdso == 0)
        SKIP("no vDSO");
    struct modules modules = scanned();
    struct region *region = modules_find(&modules, vdso + 1);
    REQUIRE(region != NULL);
    const struct module *module = modules_at(&modules, region->module);
    CHECK_U64(module->kind, MODULE_VDSO);
    CHECK(module->has_elf);
    CHECK_U64(region_link_address(region, vdso + 64), 64);
}

TEST(code_that_no_file_holds)
{
    void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(code != MAP_FAILED);
    struct modules modules = scanned();
    struct region *region = modules_find(&modules, address_of(code) + 8191);
    REQUIRE(region != NULL);
    CHECK_U64(modules_at(&modules, region->module)->kind, MODULE_ANONYMOUS);
    CHECK_U64(region_link_address(region, address_of(code) + 5), address_of(code) + 5);
    munmap(code, 8192);
}

TEST(what_is_no_code_is_in_no_region)
{
    struct modules modules = scanned();
    static int data = 1;
    int local;
    CHECK(modules_find(&modules, address_of(&data)) == NULL);
    CHECK(modules_find(&modules, address_of(&local)) == NULL);
    CHECK(modules_find(&modules, 0) == NULL);
    CHECK(modules_find(&modules, UINT64_MAX) == NULL);
    modules_close(&modules);
}

/* Unwind tables and constants lie in a module's other segments. */
TEST(spans_cover_all_segments)
{
    struct modules modules = scanned();
    static const char constant[] = "constant";
    static int data = 1;
    int local;
    REQUIRE(modules_find(&modules, address_of(program)) != NULL);
    const void *const inside[] = {program, constant, &data};
    for (unsigned i = 0; i < 3; i++) {
        struct module_span span = modules_span(&modules, address_of(inside[i]));
        CHECK(span.start <= address_of(inside[i]) && address_of(inside[i]) < span.end);
        CHECK(address_of(&local) - span.start >= span.end - span.start);
    }
    CHECK_U64(modules_span(&modules, address_of(&local)).end, 0);
    CHECK_U64(modules_span(&modules, 0).end, 0);
    CHECK_U64(modules_span(&modules, UINT64_MAX).end, 0);
    modules_close(&modules);
}

TEST(a_second_scan_changes_nothing)
{
    struct modules modules = scanned();
    uint32_t regions = modules.region_count, count = modules_count(&modules);
    CHECK(regions > 3);
    CHECK_I64(modules_scan(&modules), 0);
    CHECK_U64(modules.region_count, regions);
    CHECK_U64(modules_count(&modules), count);
    CHECK_U64(modules.replaced, 0);
}

static void check_region(const struct modules *modules, uint32_t index, uint64_t start,
                         uint64_t end, uint64_t file_offset, const char *path)
{
    REQUIRE(index < modules->region_count);
    const struct region *region = &modules->regions[index];
    CHECK_U64(region->start, start);
    CHECK_U64(region->end, end);
    CHECK_U64(region->file_offset, file_offset);
    CHECK_STR(modules_at(modules, region->module)->path, path);
}

TEST(a_mapping_in_the_middle_of_another)
{
    struct modules modules = empty();
    modules_map(&modules, 0x10000, 0x8000, 0x1000, 5, "/a");
    CHECK_U64(modules.replaced, 0);
    modules_map(&modules, 0x12000, 0x1000, 0, 6, "/b");
    CHECK_U64(modules.replaced, 1);
    CHECK_U64(modules.region_count, 3);
    check_region(&modules, 0, 0x10000, 0x12000, 0x1000, "/a");
    check_region(&modules, 1, 0x12000, 0x13000, 0, "/b");
    check_region(&modules, 2, 0x13000, 0x18000, 0x4000, "/a");
    CHECK_U64(modules_count(&modules), 2);
}

TEST(mappings_over_the_edges_of_others)
{
    struct modules modules = empty();
    modules_map(&modules, 0x10000, 0x2000, 0, 5, "/a");
    modules_map(&modules, 0x12000, 0x2000, 0, 6, "/b");
    modules_map(&modules, 0x20000, 0x2000, 0x5000, 7, "/c");
    CHECK_U64(modules.replaced, 0);
    modules_map(&modules, 0x11000, 0x10000, 0, 8, "/d");
    CHECK_U64(modules.region_count, 3);
    check_region(&modules, 0, 0x10000, 0x11000, 0, "/a");
    check_region(&modules, 1, 0x11000, 0x21000, 0, "/d");
    check_region(&modules, 2, 0x21000, 0x22000, 0x6000, "/c");
    CHECK(modules_find(&modules, 0x10fff)->module != modules_find(&modules, 0x11000)->module);
    CHECK(modules_find(&modules, 0xffff) == NULL);
    CHECK(modules_find(&modules, 0x22000) == NULL);
}

TEST(the_same_place_another_file)
{
    struct modules modules = empty();
    modules_map(&modules, 0x10000, 0x2000, 0, 5, "/a");
    modules_map(&modules, 0x10000, 0x2000, 0, 5, "/a");
    CHECK_U64(modules.replaced, 0);
    modules_map(&modules, 0x10000, 0x2000, 0, 6, "/a"); /* replaced on disk, then mapped again */
    CHECK_U64(modules.replaced, 1);
    CHECK_U64(modules.region_count, 1);
    CHECK_U64(modules_count(&modules), 2);
    CHECK_U64(modules_at(&modules, modules.regions[0].module)->inode, 6);
    modules_map(&modules, 0x10000, 0x2000, 0x1000, 6, "/a"); /* another part of it */
    CHECK_U64(modules.replaced, 2);
    CHECK_U64(modules.regions[0].file_offset, 0x1000);
}

TEST(ranges_that_are_none)
{
    struct modules modules = empty();
    modules_map(&modules, 0x10000, 0, 0, 5, "/a");
    modules_map(&modules, UINT64_MAX - 4095, 8192, 0, 5, "/a");
    modules_map(&modules, 4096, UINT64_MAX, 0, 5, "/a");
    CHECK_U64(modules.region_count, 0);
}

TEST(more_regions_than_there_is_room_for)
{
    struct modules modules = empty();
    for (uint64_t i = 0; i < MODULES_REGIONS_MAX + 10; i++)
        modules_map(&modules, 0x10000 + i * 0x3000, 0x1000, 0, 5, "/a");
    CHECK_U64(modules.region_count, MODULES_REGIONS_MAX);
    modules_map(&modules, 0x10000 + 0x100, 0x100, 0, 6, "/b"); /* would split one */
    CHECK_U64(modules.region_count, MODULES_REGIONS_MAX);
    modules_map(&modules, 0x10000, 0x1000, 0, 6, "/b"); /* needs no more room */
    CHECK_U64(modules.region_count, MODULES_REGIONS_MAX);
    check_region(&modules, 0, 0x10000, 0x11000, 0, "/b");
    for (uint32_t i = 1; i < modules.region_count; i++)
        CHECK(modules.regions[i - 1].end <= modules.regions[i].start);
}

TEST(what_is_kept_of_code_is_void_when_it_is_another)
{
    struct modules modules = empty();
    modules_map(&modules, 0x10000, 0x4000, 0, 0, "//anon");
    CHECK_U64(modules.replaced, 0);
    modules_map(&modules, 0x11000, 0x1000, 0, 0, ""); /* a JIT's, written to and made executable */
    modules_map(&modules, 0x13000, 0x2000, 0, 0, "[anon:code]");
    CHECK_U64(modules.replaced, 0);
    modules_map(&modules, 0x12000, 0x1000, 0, 5, "/a");
    CHECK_U64(modules.replaced, 1);
    CHECK_U64(modules.stale.start, 0x12000);
    CHECK_U64(modules.stale.end, 0x13000);
    modules_map(&modules, 0x11000, 0x3000, 0, 0, "");
    CHECK_U64(modules.replaced, 2);
    modules_map(&modules, 0x11000, 0x1000, 0, 7, "/b");
    CHECK_U64(modules.replaced, 3);
}

TEST(all_regions_stay_apart_whatever_comes)
{
    struct modules modules = empty();
    uint64_t random = 12345;
    for (unsigned i = 0; i < 3000; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        uint64_t start = (random >> 33) % 400 * 0x1000;
        uint64_t bytes = ((random >> 50) % 40 + 1) * 0x1000;
        modules_map(&modules, start, bytes, start, 5 + i % 3, i % 3 != 0 ? "/a" : "");
        struct region *region = modules_find(&modules, start + bytes - 1);
        REQUIRE(region != NULL && region->start <= start && region->end >= start + bytes);
        for (uint32_t k = 0; k < modules.region_count; k++) {
            REQUIRE(modules.regions[k].start < modules.regions[k].end);
            REQUIRE(k == 0 || modules.regions[k - 1].end <= modules.regions[k].start);
            CHECK_U64(modules.regions[k].file_offset, modules.regions[k].start);
        }
    }
}

/* A library that exports function(), built so that its build id depends on VALUE. */
static void *load_library(const char *name, int value)
{
    REQUIRE(fixture_run("echo 'int function(void) { return %d; }' > lib.c && ${CC:-cc} -shared "
                        "-fPIC -Wl,--build-id -o %s lib.c",
                        value, name));
    void *library = dlopen(fixture_path(name), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL);
    return library;
}

static const struct module *module_of(struct modules *modules, void *library)
{
    struct region *region = modules_find(modules, address_of(dlsym(library, "function")));
    return region != NULL ? modules_at(modules, region->module) : NULL;
}

TEST(a_file_that_was_replaced_is_refused)
{
    void *library = load_library("replaced.so", 1);
    struct modules modules = scanned();
    REQUIRE(
        fixture_run("echo 'int function(void) { return 2; }' > lib.c && ${CC:-cc} -shared -fPIC "
                    "-Wl,--build-id -o new.so lib.c && mv new.so replaced.so"));
    const struct module *module = module_of(&modules, library);
    REQUIRE(module != NULL);
    /* Who may open what is mapped has the old one. */
    CHECK(module->has_elf == (geteuid() == 0));
    struct elf_file now;
    int fd = open(fixture_path("replaced.so"), O_RDONLY);
    REQUIRE(elf_file_read(&now, elf_source_file(fd), &arena) == 0);
    CHECK(now.build_id_bytes > 0);
    CHECK(!module->has_elf || !elf_file_same_build_id(&module->elf, &now));
    close(fd);
    modules_close(&modules);
    dlclose(library);
}

/* A record told of the file; then it was written anew, its inode as before. */
TEST(a_file_with_the_inode_of_another_is_refused)
{
    void *library = load_library("renewed.so", 5), *other = load_library("other.so", 6);
    struct modules modules = scanned();
    uint64_t address = address_of(dlsym(library, "function")) & ~4095ull;
    uint64_t other_address = address_of(dlsym(other, "function")) & ~4095ull;
    uint64_t file_offset = modules_find(&modules, address)->file_offset;
    struct stat status;
    REQUIRE(stat(fixture_path("renewed.so"), &status) == 0);
    modules_close(&modules);
    modules = empty();
    modules_map(&modules, address, 4096, file_offset, status.st_ino, fixture_path("renewed.so"));
    CHECK(modules_at(&modules, modules_find(&modules, address)->module)->has_elf);
    modules_close(&modules);
    dlclose(library);
    modules = empty();
    modules_map(&modules, other_address, 4096, file_offset, status.st_ino,
                fixture_path("renewed.so"));
    REQUIRE(fixture_run("sleep 0.02; cp renewed.so r.so; cat r.so > renewed.so"));
    CHECK(!modules_at(&modules, modules_find(&modules, other_address)->module)->has_elf);
    modules_close(&modules);
    dlclose(other);
}

TEST(a_copy_of_the_same_file_is_taken)
{
    void *library = load_library("copied.so", 3);
    struct modules modules = scanned();
    REQUIRE(fixture_run("cp copied.so new.so && mv new.so copied.so"));
    const struct module *module = module_of(&modules, library);
    REQUIRE(module != NULL);
    CHECK(module->has_elf);
    modules_close(&modules);
    dlclose(library);
}

TEST(a_file_that_was_opened_in_time_may_go)
{
    void *library = load_library("going.so", 4);
    struct modules modules = scanned();
    REQUIRE(module_of(&modules, library)->has_elf);
    REQUIRE(fixture_run("rm going.so"));
    uint8_t header[4];
    const struct module *module = module_of(&modules, library);
    CHECK_U64(elf_file_read_vaddr(&module->elf, module->elf.segments[0].vaddr, header, 4), 4);
    CHECK_MEM(header, "\177ELF", 4);
    modules_close(&modules);
    dlclose(library);
}

/* A library without .eh_frame_hdr; *LOADED is the region of its code. */
static void *load_without_search_table(struct region *loaded, struct stat *status)
{
    REQUIRE(fixture_run("echo 'int function(void) { return 7; }' > lib.c && ${CC:-cc} -shared "
                        "-fPIC -fasynchronous-unwind-tables -Wl,--no-eh-frame-hdr -o plain.so "
                        "lib.c"));
    void *library = dlopen(fixture_path("plain.so"), RTLD_NOW | RTLD_LOCAL);
    REQUIRE(library != NULL && stat(fixture_path("plain.so"), status) == 0);
    struct modules modules = scanned();
    const struct region *region = modules_find(&modules, address_of(dlsym(library, "function")));
    REQUIRE(region != NULL);
    *loaded = *region;
    modules_close(&modules);
    return library;
}

TEST(a_table_is_not_made_up_for_a_place_that_is_not_known)
{
    struct region loaded;
    struct stat status;
    void *library = load_without_search_table(&loaded, &status);
    struct modules modules = empty();
    const char *path = fixture_path("plain.so");
    /* A mapping of what is behind the file's end. */
    modules_map(&modules, 0x100000, 0x1000, 0x40000000, status.st_ino, path);
    modules_map(&modules, loaded.start, loaded.end - loaded.start, loaded.file_offset,
                status.st_ino, path);
    const struct region *region = modules_find(&modules, 0x100000);
    const struct module *module = modules_at(&modules, region->module);
    CHECK(module->has_elf && module->table_base == 0);
    CHECK(modules_find(&modules, loaded.start) != NULL);
    CHECK(module->table_base != 0);
    CHECK_U64(module->table.load_bias, loaded.bias);
    modules_close(&modules);
    dlclose(library);
}

/* Reading for it may take long. */
TEST(a_table_that_could_not_be_made_up_is_not_tried_again)
{
    struct region loaded;
    struct stat status;
    void *library = load_without_search_table(&loaded, &status);
    bool failed = false;
    for (int nth = 1; nth < 60; nth++) {
        struct modules modules = empty();
        arena.fail_countdown = nth;
        for (unsigned i = 0; i < 2; i++)
            modules_map(&modules, loaded.start + i * (loaded.end - loaded.start),
                        loaded.end - loaded.start, loaded.file_offset, status.st_ino,
                        fixture_path("plain.so"));
        const struct region *region = modules_find(&modules, loaded.start);
        const struct module *module = region != NULL ? modules_at(&modules, region->module) : NULL;
        arena.fail_countdown = 0;
        if (module != NULL && module->has_elf && module->table_base == 0) {
            failed = true;
            CHECK(modules_find(&modules, loaded.end) != NULL);
            CHECK_U64(module->table_base, 0);
        }
        modules_close(&modules);
    }
    CHECK(failed);
    dlclose(library);
}

TEST(what_stands_at_a_path_may_be_anything)
{
    struct modules modules = empty();
    fixture_text("text", "no program");
    REQUIRE(fixture_run("mkfifo pipe"));
    const char *const paths[] = {fixture_path("text"), fixture_path("pipe"), fixture_dir(),
                                 "/nonexistent", "/dev/null"};
    for (unsigned i = 0; i < 5; i++) {
        uint64_t start = 0x100000 * (i + 1);
        modules_map(&modules, start, 0x1000, 0, 5, paths[i]);
        struct region *region = modules_find(&modules, start);
        REQUIRE(region != NULL);
        CHECK(!modules_at(&modules, region->module)->has_elf);
        CHECK_U64(region_link_address(region, start + 7), start + 7);
    }
    modules_close(&modules);
}

/* A writer that waits for the FIFO's reader would go on, and die of SIGPIPE. */
TEST(a_fifo_is_not_even_opened)
{
    struct modules modules = empty();
    REQUIRE(fixture_run("mkfifo unopened"));
    int watch = fixture_watch_opens("unopened");
    modules_map(&modules, 0x100000, 0x1000, 0, 5, fixture_path("unopened"));
    REQUIRE(modules_find(&modules, 0x100000) != NULL);
    CHECK(!fixture_was_opened(watch));
    modules_close(&modules);
}

TEST(every_allocation_may_fail)
{
    for (int nth = 1; nth < 60; nth++) {
        struct modules modules;
        arena_destroy(&arena);
        app_memory_init(&memory, &arena);
        arena.fail_countdown = nth;
        modules_init(&modules, &arena, &memory, address_of(modules_init));
        modules_scan(&modules);
        modules_find(&modules, address_of(program));
        modules_find(&modules, getauxval(AT_SYSINFO_EHDR) + 1);
        modules_span(&modules, address_of(&modules));
        arena.fail_countdown = 0;
        modules_close(&modules);
    }
}

/* As without /proc: what the linker told is there, once, and what came before it stays. */
static int without_maps(void)
{
    static const struct linked linked = {
        .count = 2, .code = {{0x100000, 0x3000, 0, 5, "/a"}, {0x200000, 0x1000, 0x1000, 6, "/b"}}};
    arena_init(&arena, 64u << 20);
    struct modules modules = empty();
    modules.linked = &linked;
    modules_map(&modules, 0x300000, 0x1000, 0, 7, "/c");
    if (refuse(SYS_openat, ENOENT) != 0)
        return 77;
    if (modules_scan(&modules) != 0 || modules.region_count != 3)
        return 1;
    const struct region *region = modules_find(&modules, 0x102fff);
    if (region == NULL || strcmp(modules_at(&modules, region->module)->path, "/a") != 0)
        return 2;
    return modules_scan(&modules) == -ENOENT && modules.region_count == 3 ? 0 : 3;
}

TEST(what_the_linker_told_where_proc_does_not)
{
    int result = in_child(without_maps);
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}
