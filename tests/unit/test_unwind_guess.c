/* unwind_guess: callers of code without unwind information, of files and made at run time. */
#include "unwind.h"

#include <sys/mman.h>

#include "unwind_fixture.h"

/*
 * bare_leaf has no unwind information; bare_caller has, and calls it with a frame pointer that
 * leads nowhere. As in the stubs of libc, the word on top of the stack is the return address.
 */
__asm__(".text\n"
        "bare_leaf:\n"
        "1: decq %rdi\n"
        "jnz 1b\n"
        "ret\n"
        ".skip 512, 0x90\n" /* nothing else counts as this function */
        "bare_caller:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 0\n"
        "xorl %ebp, %ebp\n"
        "call bare_leaf\n"
        "bare_caller_goes_on:\n"
        "popq %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        ".cfi_restore %rbp\n"
        "ret\n"
        ".cfi_endproc\n");

void bare_leaf(void);
void bare_caller(unsigned long rounds);
void bare_caller_goes_on(void);

FIXTURE_CHAIN static void call_bare(unsigned long rounds)
{
    fixture_returns[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    bare_caller(rounds);
    fixture_sink++;
}

TEST(a_leaf_without_unwind_information_has_a_caller)
{
    enum unwind_end end;
    prepare(fixture_libunwind());
    fixture_sample_in(bare_leaf, call_bare, &taken);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end);
    REQUIRE(count > 4);
    CHECK_U64(ips[0], taken.registers[ARCH_PERF_INDEX_IP]);
    CHECK_U64(ips[1], (uint64_t)(uintptr_t)bare_caller_goes_on - 1);
    CHECK_U64(ips[3], fixture_returns[0] - 1);
    CHECK_U64(end, UNWIND_ROOT);
    modules_close(&modules);
}

static void code_make(uint8_t *page)
{
    memset(page, 0x90, 4096);
    page[0x100] = page[0x200] = 0xe8; /* call */
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

/* A sample at IP with a stack of zeroes at STACK_AT. */
static struct unwind_sample made_sample(uint64_t ip, uint64_t fp)
{
    memset(registers, 0, sizeof registers);
    memset(stack, 0, sizeof stack);
    registers[ARCH_PERF_INDEX_SP] = STACK_AT;
    registers[ARCH_PERF_INDEX_FP] = fp;
    registers[ARCH_PERF_INDEX_IP] = ip;
    return (struct unwind_sample){
        .registers = registers, .stack = (const uint8_t *)stack, .stack_bytes = sizeof stack};
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
    stack[3] = code + 0x105;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(ips[1], code + 0x104);
    CHECK_U64(end, UNWIND_NO_RULE);
    CHECK_U64(unwinder.guesses, 1);
    stack[2] = 0x10020;
    stack[4] = 0x10010;
    stack[5] = code + 0x205;
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
    stack[2] = code + 0x105;
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(ips[1], code + 0x104);
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
    static const struct {
        uint8_t code[8];
        unsigned at, skip_words, pops_fp; /* the place in the code, and what lies on the stack */
    } cases[] = {
        {{0xc3}, 0, 0, 0},
        {{0x48, 0x83, 0xc4, 0x18, 0xc3}, 0, 3, 0},                   /* add $24, %rsp; ret */
        {{0x48, 0x81, 0xc4, 0x20, 0x00, 0x00, 0x00, 0xc3}, 0, 4, 0}, /* the same of 4 bytes */
        {{0x48, 0x83, 0xc4, 0x08, 0x5d, 0xc3}, 0, 1, 1},             /* ..; pop %rbp; ret */
        {{0x5d, 0xf3, 0xc3}, 0, 0, 1},
        {{0x55, 0x48, 0x89, 0xe5}, 1, 0, 1}, /* push %rbp | mov %rsp, %rbp */
    };
    uint64_t code = code_without_rules();
    prepare(&no_library);
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        enum unwind_end end;
        struct unwind_sample sample =
            made_sample(code + 0x800 + cases[i].at, cases[i].pops_fp != 0 ? 0 : 0x10100);
        memcpy((void *)(uintptr_t)(code + 0x800), cases[i].code, sizeof cases[i].code);
        unsigned word = cases[i].skip_words;
        if (cases[i].pops_fp != 0)
            stack[word++] = 0x10100;
        stack[word] = code + 0x105;
        stack[0x100 / 8 + 1] = code + 0x205;
        size_t count = unwind_stack(&unwinder, &sample, ips, &end);
        if (count != 3 || ips[1] != code + 0x104 || ips[2] != code + 0x204)
            check_fail(__FILE__, __LINE__, "case %u: %zu frames, %lx", i, count,
                       (unsigned long)ips[1]);
        munmap((void *)(uintptr_t)code, 4096); /* is gone, but was seen */
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

TEST(calls_are_told_from_other_code)
{
    static const struct {
        uint8_t code[ARCH_CALL_BYTES];
        int is_call;
    } cases[] = {
        {{0x90, 0x90, 0xe8, 1, 2, 3, 4}, 1},             /* call rel32 */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0}, 1}, /* call *%rax */
        {{0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd4}, 1}, /* call *%r12 */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x10}, 1}, /* call *(%rax) */
        {{0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 0x08}, 1}, /* call *8(%rax) */
        {{0x90, 0x90, 0x90, 0x90, 0xff, 0x14, 0xd0}, 1}, /* call *(%rax,%rdx,8) */
        {{0x90, 0x90, 0x90, 0xff, 0x54, 0x24, 0x10}, 1}, /* call *16(%rsp) */
        {{0x90, 0xff, 0x15, 1, 2, 3, 4}, 1},             /* call *disp32(%rip) */
        {{0x90, 0xff, 0x90, 1, 2, 3, 4}, 1},             /* call *disp32(%rax) */
        {{0xff, 0x94, 0x24, 1, 2, 3, 4}, 1},             /* call *disp32(%rsp) */
        {{0xff, 0x14, 0xc5, 1, 2, 3, 4}, 1},             /* call *disp32(,%rax,8) */
        {{0x90, 0x90, 0xe9, 1, 2, 3, 4}, 0},             /* jmp rel32 */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0}, 0}, /* jmp *%rax */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0x0f, 0x05}, 0}, /* syscall */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, 0}, /* nop */
        {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x15}, 0}, /* only the start of a call */
    };
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++)
        if (arch_ends_in_call(cases[i].code) != cases[i].is_call)
            check_fail(__FILE__, __LINE__, "case %u", i);
}
