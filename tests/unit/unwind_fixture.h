/*
 * What the tests of the unwinder share: the stages before it over this very process, a sample of
 * it, and checks of a stack against the return addresses that the functions themselves saw.
 */
#ifndef SELFSAMPLE_TESTS_UNWIND_FIXTURE_H
#define SELFSAMPLE_TESTS_UNWIND_FIXTURE_H

#include "sample_fixture.h"

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static uint64_t ips[UNWIND_FRAMES_MAX];
static struct fixture_sample taken;

static const struct unwind_library no_library;

static inline void prepare(const struct unwind_library *library)
{
    if (library == NULL)
        SKIP("libunwind is not installed");
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    REQUIRE(modules_scan(&modules) == 0);
    unwinder_init(&unwinder, library, &modules, &memory, &arena);
}

static inline struct unwind_sample whole_sample(void)
{
    return (struct unwind_sample){.registers = taken.registers,
                                  .stack = taken.stack,
                                  .stack_bytes = taken.record.sample.stack_bytes};
}

/* Defines NAME, which notes where it returns to and calls LEAF. */
#define FIXTURE_CALLER(name, leaf)                                                                 \
    FIXTURE_CHAIN static void name(unsigned long rounds)                                           \
    {                                                                                              \
        fixture_returns[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);                     \
        leaf(rounds);                                                                              \
        fixture_sink++;                                                                            \
    }

/* The stack of a sample in LEAF, called by CALLER, which must be whole and have DEPTH_MIN frames.
 */
static inline void unwind_sampled(const struct unwind_library *library, void *leaf,
                                  void (*caller)(unsigned long), size_t depth_min)
{
    enum unwind_end end;
    prepare(library);
    fixture_sample_in(leaf, caller, &taken);
    struct unwind_sample sample = whole_sample();
    REQUIRE(unwind_stack(&unwinder, &sample, ips, &end) >= depth_min);
    CHECK_U64(end, UNWIND_ROOT);
}

/* The leaf is the instruction itself, its callers are inside their calls. */
static inline void check_chain(size_t count)
{
    REQUIRE(count > 4);
    CHECK_U64(ips[0], taken.registers[ARCH_PERF_INDEX_IP]);
    for (unsigned i = 0; i < 3; i++)
        CHECK_U64(ips[i + 1], fixture_returns[i] - 1);
}

static inline void check_name(uint64_t ip, const char *name)
{
    Dl_info info;
    REQUIRE(dladdr((void *)(uintptr_t)ip, &info) != 0);
    CHECK_STR(info.dli_sname, name);
}

/* Also the stack's own outermost functions, which are libc's. */
static inline void check_root(size_t count, enum unwind_end end)
{
    check_chain(count);
    CHECK_U64(end, UNWIND_ROOT);
    CHECK(count < 20);
    check_name(ips[count - 2], "__libc_start_main");
}

#endif
