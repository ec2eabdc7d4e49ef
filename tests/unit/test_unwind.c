/* unwind: what holds whichever way a stack is walked: copies that end too early, deep stacks that
 * are still there, damage, libunwind alone, want of memory. */
#include "unwind.h"

#include <time.h>
#include <unistd.h>

#include "unwind_fixture.h"

TEST(libunwind_finds_the_chain_and_the_root)
{
    enum unwind_end end;
    prepare(fixture_libunwind());
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    unwinder.sample = whole_sample();
    size_t count = unwind_by_libunwind(&unwinder, ips, &end);
    check_root(count, end);
    CHECK_U64(unwind_by_libunwind(&unwinder, ips, &end), count); /* now out of its cache */
    check_root(count, end);
    modules_close(&modules);
}

/* Whatever is left of the copy: what is found is the beginning of the whole, and is not called
 * whole. */
static void check_cuts(const struct unwind_library *library)
{
    static uint64_t whole[UNWIND_FRAMES_MAX];
    enum unwind_end end, whole_end;
    prepare(library);
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    struct unwind_sample sample = whole_sample();
    size_t whole_count = unwind_stack(&unwinder, &sample, whole, &whole_end);
    size_t most = 0;
    for (size_t bytes = 0; bytes < whole_sample().stack_bytes && most < whole_count; bytes += 8) {
        sample.stack_bytes = bytes;
        size_t count = unwind_stack(&unwinder, &sample, ips, &end);
        REQUIRE(count >= 1 && count <= whole_count);
        CHECK_MEM(ips, whole, count * sizeof *ips);
        if (count < whole_count)
            CHECK_U64(end, UNWIND_CUT);
        most = count > most ? count : most;
    }
    CHECK_U64(most, whole_count);
    modules_close(&modules);
}

TEST(cut_copies_give_cut_stacks)
{
    check_cuts(fixture_libunwind());
}

TEST(cut_copies_give_cut_stacks_without_libunwind)
{
    check_cuts(&no_library);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The sample of a stack that is still there above its KEPT frames, cut behind these. */
static struct unwind_sample deep_sample(struct deep_stack *deep, size_t kept)
{
    enum unwind_end end;
    struct unwind_sample sample = whole_sample();
    for (sample.stack_bytes = 0; unwind_stack(&unwinder, &sample, ips, &end) < kept;)
        sample.stack_bytes += 8;
    CHECK_U64(end, UNWIND_CUT);
    sample.tid = gettid();
    sample.deep = deep;
    return sample;
}

/* What the copy lacks is believed of samples that come while the return address is not written. */
TEST(a_deep_stack_is_known_while_it_is_watched)
{
    static uint64_t whole[UNWIND_FRAMES_MAX];
    struct deep_stack deep = {.watch = -1};
    enum unwind_end end;
    prepare(&no_library);
    if (!deep_stack_is_possible())
        SKIP("writes to watched words are not counted here");
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    struct unwind_sample sample = whole_sample();
    size_t whole_count = unwind_stack(&unwinder, &sample, whole, &end);
    size_t kept = whole_count - 2; /* up to a caller of this function */
    sample = deep_sample(&deep, kept);
    sample.time_ns = now_ns();
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), kept);
    CHECK_I64(deep.watch, -1); /* there is a newer sample to go by */
    sample.is_newest = true;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), kept);
    CHECK_U64(end, UNWIND_CUT); /* it is older than the watch */
    CHECK_MEM(ips, whole, kept * sizeof *ips);
    REQUIRE(deep.watch >= 0);
    sample.time_ns = now_ns();
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), whole_count);
    CHECK_U64(end, UNWIND_ROOT);
    CHECK_MEM(ips, whole, whole_count * sizeof *ips);
    sample.stack_bytes = whole_sample().stack_bytes; /* that frame in the middle of a copy */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), whole_count);
    CHECK_U64(end, UNWIND_ROOT);
    sample = deep_sample(&deep, kept);
    volatile uint64_t *word = (uint64_t *)(uintptr_t)deep.slot;
    *word = *word;
    sample.time_ns = now_ns();
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), kept);
    CHECK_U64(end, UNWIND_CUT);
    deep_stack_end(&deep);
    modules_close(&modules);
}

/* Random registers and stacks: no crash, no end that is none. */
static void check_garbage(const struct unwind_library *library)
{
    uint64_t random = 99;
    enum unwind_end end;
    prepare(library);
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    for (unsigned round = 0; round < 3000; round++) {
        static struct fixture_sample bad;
        bad = taken;
        for (unsigned i = 0; i < 1 + round % 40; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            uint64_t value = round % 3 == 0 ? random : taken.registers[random >> 60];
            size_t at = (random >> 20) % 256;
            memcpy(bad.stack + 8 * at, &value, 8);
            if (i % 8 == 7)
                bad.registers[(random >> 40) % ARCH_PERF_REGISTER_COUNT] = value;
        }
        size_t bytes = whole_sample().stack_bytes;
        struct unwind_sample sample = {.registers = bad.registers,
                                       .stack = bad.stack,
                                       .stack_bytes = bytes - bytes / 800 * (round % 9)};
        size_t count = unwind_stack(&unwinder, &sample, ips, &end);
        CHECK(count >= 1 && count <= UNWIND_FRAMES_MAX);
        CHECK(end <= UNWIND_NO_RULE);
    }
    modules_close(&modules);
}

TEST(damaged_stacks)
{
    check_garbage(fixture_libunwind());
}

TEST(damaged_stacks_without_libunwind)
{
    check_garbage(&no_library);
}

TEST(without_memory_for_anything)
{
    enum unwind_end end;
    prepare(fixture_libunwind());
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    struct unwind_sample sample = whole_sample();
    modules_close(&modules);
    for (int nth = 1; nth < 40; nth++) {
        arena_destroy(&arena);
        arena.fail_countdown = nth;
        app_memory_init(&memory, &arena);
        modules_init(&modules, &arena, &memory, 0);
        modules_scan(&modules);
        unwinder_init(&unwinder, fixture_libunwind(), &modules, &memory, &arena);
        CHECK(unwind_stack(&unwinder, &sample, ips, &end) >= 1);
        CHECK_U64(ips[0], taken.registers[ARCH_PERF_INDEX_IP]);
        arena.fail_countdown = 0;
        modules_close(&modules);
    }
}
