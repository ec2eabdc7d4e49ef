/* unwind_guess: callers of code without unwind information, of files and made at run time. */
#include "unwind.h"

#include <sys/mman.h>

#include "arch_fixture.h"
#include "sys.h"
#include "unwind_fixture.h"

__asm__(ARCH_BARE_CODE);

void bare_leaf(void);
void bare_caller(unsigned long rounds);
void bare_caller_goes_on(void);

FIXTURE_CALLER(call_bare, bare_caller)

TEST(a_leaf_without_unwind_information_has_a_caller)
{
    unwind_sampled(fixture_libunwind(), bare_leaf, call_bare, 5);
    CHECK_U64(ips[0], taken.registers[ARCH_PERF_INDEX_IP]);
    CHECK_U64(ips[1], (uint64_t)(uintptr_t)bare_caller_goes_on - 1);
    CHECK_U64(ips[3], fixture_returns[0] - 1);
    modules_close(&modules);
}

/* Where such code has calls, and where they return to. */
#define CALL_1   0x100u
#define CALL_2   0x200u
#define RETURN_1 (CALL_1 + ARCH_CALL_LENGTH)
#define RETURN_2 (CALL_2 + ARCH_CALL_LENGTH)

static void code_make(uint8_t *page)
{
    memset(page, ARCH_NOTHING_CODE, 4096);
    memcpy(page + CALL_1, arch_call_code, sizeof arch_call_code);
    memcpy(page + CALL_2, arch_call_code, sizeof arch_call_code);
}

/* Code that no module holds, as a JIT makes it: functions that keep a frame pointer. */
static uint64_t code_without_rules(void)
{
    uint8_t *page =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(page != MAP_FAILED);
    code_make(page);
    return (uint64_t)(uintptr_t)page;
}

#define STACK_AT 0x10000u

static uint64_t registers[ARCH_PERF_REGISTER_COUNT], stack[64];

/* A sample of now at IP with a stack of zeroes at STACK_AT. */
static struct unwind_sample made_sample(uint64_t ip, uint64_t fp)
{
    memset(registers, 0, sizeof registers);
    memset(stack, 0, sizeof stack);
    registers[ARCH_PERF_INDEX_SP] = STACK_AT;
    registers[ARCH_PERF_INDEX_FP] = fp;
    registers[ARCH_PERF_INDEX_IP] = ip;
    return (struct unwind_sample){.registers = registers,
                                  .stack = (const uint8_t *)stack,
                                  .stack_bytes = sizeof stack,
                                  .time_ns = sys_clock_ns(CLOCK_MONOTONIC)};
}

/* One word up from a frame pointer lies the return address. A frame pointer that points at itself,
 * or up and down: no more frames than there are words. */
TEST(frame_pointers_where_there_are_no_rules)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    struct unwind_sample sample = made_sample(code, 0x10010);
    stack[2] = 0x10010;
    stack[3] = code + RETURN_1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(ips[1], code + RETURN_1 - 1);
    CHECK_U64(end, UNWIND_NO_RULE);
    CHECK_U64(unwinder.guesses, 1);
    stack[2] = 0x10020;
    stack[4] = 0x10010;
    stack[5] = code + RETURN_2;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 3);
    stack[5] = code + 0x300; /* behind no call */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(end, UNWIND_NO_RULE);
    stack[2] = STACK_AT + sizeof stack; /* the next frame lies beyond the copy */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(end, UNWIND_CUT);
    modules_close(&modules);
}

/* Damage may lead there: the return address that is read last is said to lie at 0. */
TEST(a_stack_that_reaches_around_the_end_of_all_addresses)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    struct unwind_sample sample = made_sample(code, (uint64_t)-8);
    registers[ARCH_PERF_INDEX_SP] = (uint64_t)-16;
    stack[2] = code + RETURN_1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(ips[1], code + RETURN_1 - 1);
    CHECK_U64(end, UNWIND_NO_RULE);
    modules_close(&modules);
}

/* Interpreters that were made at run time push the address to return to, and jump. */
TEST(made_code_that_returns_to_where_no_call_was)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    struct unwind_sample sample = made_sample(code, 0x10010);
    stack[2] = 0x10020;
    stack[3] = code + 0x300;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(ips[1], code + 0x2ff);
    stack[3] = (uint64_t)(uintptr_t)code_without_rules + 16; /* in a file there must be a call */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 1);
    stack[3] = 0x1234;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 1);
    stack[3] = code + 0x300;
    stack[2] = 0x10008; /* a chain does not go inwards */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 1);
    modules_close(&modules);
}

/* Stubs without a frame pointer are followed where their code shows that they are about to leave.
 */
TEST(made_code_that_leaves_its_function)
{
    static const struct leave_case *const cases = arch_leave_cases;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    for (unsigned i = 0; i < sizeof arch_leave_cases / sizeof *cases; i++) {
        enum unwind_end end;
        struct unwind_sample sample =
            made_sample(code + 0x800 + cases[i].at, cases[i].pops_fp != 0 ? 0 : 0x10100);
        memcpy((void *)(uintptr_t)(code + 0x800), cases[i].code, sizeof cases[i].code);
        unsigned word = cases[i].skip_words;
        if (cases[i].pops_fp != 0)
            stack[word++] = 0x10100;
        stack[word] = code + RETURN_1;
        stack[0x100 / 8 + 1] = code + RETURN_2;
        size_t count = unwind_stack(&unwinder, &sample, ips, &end);
        if (count != 3 || ips[1] != code + RETURN_1 - 1 || ips[2] != code + RETURN_2 - 1)
            check_fail(__FILE__, __LINE__, "case %u: %zu frames, %lx", i, count,
                       (unsigned long)ips[1]);
        munmap((void *)(uintptr_t)code, 4096); /* is gone, but was seen */
        sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC);
        stack[word] = (uint64_t)(uintptr_t)bare_caller_goes_on;
        count = unwind_stack(&unwinder, &sample, ips, &end);
        if (count < 2 || ips[1] != stack[word] - 1)
            check_fail(__FILE__, __LINE__, "case %u, gone: %zu frames, %lx", i, count,
                       (unsigned long)ips[1]);
        REQUIRE(mmap((void *)(uintptr_t)code, 4096, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED);
        code_make((uint8_t *)(uintptr_t)code);
    }
    modules_close(&modules);
}

/* Checks the first caller of a sample in code that leaves its function, or did. */
static void check_caller(struct unwind_sample *sample, uint64_t caller)
{
    enum unwind_end end;
    REQUIRE(unwind_stack(&unwinder, sample, ips, &end) >= 2);
    CHECK_U64(ips[1], caller - 1);
}

/* What was seen of code is believed of samples that are older than the look, and of no other. */
TEST(made_code_is_looked_at_anew_for_newer_samples)
{
    static const size_t cases = sizeof arch_leave_cases / sizeof *arch_leave_cases;
    const struct leave_case *leave = &arch_leave_cases[cases - 1];
    uint64_t code = code_without_rules();
    uint8_t nothing[sizeof leave->code], *at = (uint8_t *)(uintptr_t)(code + 0x800);
    REQUIRE(leave->pops_fp != 0);
    memcpy(nothing, at, sizeof nothing);
    prepare(&no_library);
    struct unwind_sample sample = made_sample(code + 0x800 + leave->at, 0x10100);
    stack[leave->skip_words] = 0x10100;
    stack[leave->skip_words + 1] = code + RETURN_1; /* the caller of code that leaves */
    stack[0x100 / 8 + 1] = code + RETURN_2;         /* that of other code */
    check_caller(&sample, code + RETURN_2);
    memcpy(at, leave->code, sizeof leave->code);
    check_caller(&sample, code + RETURN_2);
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    check_caller(&sample, code + RETURN_1);
    memcpy(at, nothing, sizeof nothing);
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    check_caller(&sample, code + RETURN_2);
    munmap((void *)(uintptr_t)code, 4096); /* is gone, and was other code when seen last */
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    check_caller(&sample, code + RETURN_2);
    modules_close(&modules);
}

/* The only caller there can be, since frame pointers do not go inwards. */
TEST(calls_in_made_code_come_and_go)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    uint8_t *call = (uint8_t *)(uintptr_t)(code + CALL_1);
    prepare(&no_library);
    struct unwind_sample sample = made_sample(code, 0x10010);
    stack[2] = 0x10008;
    stack[3] = code + RETURN_1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    memset(call, ARCH_NOTHING_CODE, ARCH_CALL_LENGTH);
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 1);
    memcpy(call, arch_call_code, sizeof arch_call_code);
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    munmap((void *)(uintptr_t)code, 4096); /* is gone, but was seen */
    sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    modules_close(&modules);
}

/* As above, of a caller that is guessed after another one, where libunwind does the rest. */
TEST(calls_in_made_code_come_and_go_for_callers_too)
{
    enum unwind_end end;
    if (fixture_libunwind() == NULL)
        SKIP("libunwind is not installed");
    if (!ARCH_FRAME_ENDS_AT_RECORD)
        SKIP("libunwind can't go on from a guess by frame pointer");
    uint64_t code = code_without_rules(), outer = code_without_rules();
    uint8_t *call = (uint8_t *)(uintptr_t)(outer + CALL_1);
    prepare(fixture_libunwind());
    unwinder.sample = made_sample(code + 0x800, 0x10010);
    stack[2] = 0x10020;
    stack[3] = code + RETURN_1;
    stack[4] = 0;
    stack[5] = outer + RETURN_1;
    CHECK_U64(unwind_by_libunwind(&unwinder, ips, &end), 3);
    CHECK_U64(ips[2], outer + RETURN_1 - 1);
    memset(call, ARCH_NOTHING_CODE, ARCH_CALL_LENGTH);
    unwinder.sample.time_ns = sys_clock_ns(CLOCK_MONOTONIC) + 1;
    CHECK_U64(unwind_by_libunwind(&unwinder, ips, &end), 2);
    munmap((void *)(uintptr_t)code, 4096);
    munmap((void *)(uintptr_t)outer, 4096);
    modules_close(&modules);
}

TEST(calls_are_told_from_other_code)
{
    for (unsigned i = 0; i < sizeof arch_call_cases / sizeof *arch_call_cases; i++)
        if (arch_ends_in_call(arch_call_cases[i].code) != arch_call_cases[i].is_call)
            check_fail(__FILE__, __LINE__, "case %u", i);
}
