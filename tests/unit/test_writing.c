/* writing: a profile into a file, in each format; none where there is nothing to count. */
#include "elf_fixture.h"

#include "builder_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "writing.h"

#define PERIOD_NS 1000000u

static struct kernel_symbols kernel;
static struct session session;
static struct outfile out;

static const struct kernel_symbols_paths no_paths = {.kallsyms = "/nonexistent",
                                                     .boot_id = "/nonexistent",
                                                     .modules = "/nonexistent",
                                                     .cache_directory = "/nonexistent"};

/* A profile of two stacks in this process, of WEIGHT_NS each. */
static void prepare(uint64_t weight_ns)
{
    builder_prepare();
    kernel_symbols_init(&kernel, &no_paths);
    session.period_ns = PERIOD_NS;
    session.config.unit = CONFIG_UNIT_SAMPLES;
    const void *functions[] = {(const void *)(uintptr_t)prepare, (const void *)(uintptr_t)main};
    for (size_t i = 0; i < 2; i++) {
        uint64_t address = (uint64_t)(uintptr_t)functions[i] + 1;
        const struct region *region = modules_find(&modules, address);
        REQUIRE(region != NULL);
        uint32_t frame =
            profile_frame(&profile, region->module, region_link_address(region, address));
        REQUIRE(profile_add(&profile, &frame, 1, weight_ns, NULL) == 0);
    }
    unlink(fixture_path("profile"));
    REQUIRE(outfile_init(&out, AT_FDCWD, fixture_path("profile")) == 0);
    REQUIRE(outfile_begin(&out) == 0);
}

static int write_as(enum config_format format)
{
    struct writing writing = {.session = &session,
                              .stacks = &builder,
                              .kernel = &kernel,
                              .profile = &profile,
                              .format = format,
                              .out = &out};
    int result = writing_do(&writing, &names_arena);
    outfile_close(&out);
    modules_close(&modules);
    return result;
}

static bool is_there(void)
{
    return access(fixture_path("profile"), F_OK) == 0;
}

TEST(half_a_count_is_a_file)
{
    prepare(PERIOD_NS / 4);
    CHECK_I64(write_as(CONFIG_FORMAT_FOLDED), 0);
    CHECK(is_there());
}

TEST(less_than_half_a_count_is_none)
{
    prepare(PERIOD_NS / 4 - 1);
    CHECK_I64(write_as(CONFIG_FORMAT_FOLDED), -ENODATA);
    CHECK(!is_there());
}

TEST(finer_units_count_it)
{
    prepare(PERIOD_NS / 4 - 1);
    session.config.unit = CONFIG_UNIT_US;
    CHECK_I64(write_as(CONFIG_FORMAT_FOLDED), 0);
    CHECK(is_there());
    prepare(PERIOD_NS / 4 - 1);
    CHECK_I64(write_as(CONFIG_FORMAT_PPROF), 0);
    CHECK(is_there());
}
