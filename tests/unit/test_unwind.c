/*
 * unwind: stacks of this very process, by libunwind and along frame pointers, against the return
 * addresses that the functions themselves saw.
 */
#include "unwind.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "sample_fixture.h"

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static uint64_t ips[UNWIND_FRAMES_MAX];
static struct fixture_sample taken;

static const struct unwind_library no_library;

static void prepare(const struct unwind_library *library)
{
    if (library == NULL)
        SKIP("libunwind is not installed");
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    REQUIRE(modules_scan(&modules) == 0);
    unwinder_init(&unwinder, library, &modules, &memory, &arena);
}

static struct unwind_sample whole_sample(void)
{
    return (struct unwind_sample){.registers = taken.registers,
                                  .stack = taken.stack,
                                  .stack_bytes = taken.record.sample.stack_bytes};
}

/* The leaf is the instruction itself, its callers are inside their calls. */
static void check_chain(size_t count)
{
    REQUIRE(count > 4);
    CHECK_U64(ips[0], taken.registers[ARCH_PERF_INDEX_IP]);
    for (unsigned i = 0; i < 3; i++)
        CHECK_U64(ips[i + 1], fixture_returns[i] - 1);
}

static void check_name(uint64_t ip, const char *name)
{
    Dl_info info;
    REQUIRE(dladdr((void *)(uintptr_t)ip, &info) != 0);
    CHECK_STR(info.dli_sname, name);
}

/* Also the stack's own outermost functions, which are libc's. */
static void check_root(size_t count, enum unwind_end end)
{
    check_chain(count);
    CHECK_U64(end, UNWIND_ROOT);
    CHECK(count < 20);
    check_name(ips[count - 2], "__libc_start_main");
}

static void check_finds_root(const struct unwind_library *library)
{
    enum unwind_end end;
    prepare(library);
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end);
    check_root(count, end);
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), count); /* now out of caches */
    check_root(count, end);
    CHECK_U64(unwinder.handed_over, 0);
    CHECK_U64(unwinder.guesses, 0);
    modules_close(&modules);
}

TEST(rules_find_the_chain_and_the_root)
{
    check_finds_root(fixture_libunwind());
}

TEST(rules_need_no_libunwind)
{
    check_finds_root(&no_library);
}

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

/* Rules are kept, until something else is mapped where they hold. */
TEST(kept_rules_go_with_their_mapping)
{
    enum unwind_end end;
    prepare(fixture_libunwind());
    fixture_sample_in(fixture_leaf, fixture_outer, &taken);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end);
    check_root(count, end);
    uint64_t key = rule_cache_key(ips[1] + 1, true);
    struct cfi_rule *kept = (struct cfi_rule *)(uintptr_t)rule_cache_find(&unwinder.rules, key);
    REQUIRE(kept != NULL);
    CHECK_U64(kept->kind, CFI_RULE_REGISTER);
    kept->kind = CFI_RULE_ROOT; /* as if other code had been there */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    const struct region here = *modules_find(&modules, ips[1]);
    const struct module *module = modules_at(&modules, here.module);
    modules_map(&modules, here.start, here.end - here.start, here.file_offset, 1, "/other");
    modules_map(&modules, here.start, here.end - here.start, here.file_offset, module->inode,
                module->path);
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), count);
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

/* As compilers do, it does not say that the frame pointer has been popped: that is kept below the
 * stack pointer now, in no sample. */
__asm__(".text\n"
        "popped_leaf:\n"
        ".cfi_startproc\n"
        "pushq %rbp\n"
        ".cfi_adjust_cfa_offset 8\n"
        ".cfi_rel_offset %rbp, 0\n"
        "popq %rbp\n"
        ".cfi_adjust_cfa_offset -8\n"
        "1: decq %rdi\n"
        "jnz 1b\n"
        "ret\n"
        ".cfi_endproc\n"
        ".skip 512, 0x90\n");

void popped_leaf(unsigned long rounds);

FIXTURE_CHAIN static void call_popped(unsigned long rounds)
{
    fixture_returns[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    popped_leaf(rounds);
    fixture_sink++;
}

TEST(a_frame_pointer_that_was_popped)
{
    enum unwind_end end;
    prepare(&no_library);
    fixture_sample_in(popped_leaf, call_popped, &taken);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end);
    REQUIRE(count > 3);
    CHECK_U64(ips[2], fixture_returns[0] - 1);
    CHECK_U64(end, UNWIND_ROOT);
    modules_close(&modules);
}

static uint64_t raise_returns;

static void handler(int signal)
{
    (void)signal;
    fixture_leaf(2000000);
    fixture_sink++;
}

FIXTURE_CHAIN static void raise_in(unsigned long rounds)
{
    (void)rounds;
    raise_returns = (uint64_t)(uintptr_t)__builtin_return_address(0);
    raise(SIGUSR1);
    fixture_sink++;
}

TEST(through_a_signal_frame)
{
    enum unwind_end end;
    prepare(fixture_libunwind());
    struct sigaction action = {.sa_handler = handler}, before;
    sigaction(SIGUSR1, &action, &before);
    fixture_sample_in(fixture_leaf, raise_in, &taken);
    sigaction(SIGUSR1, &before, NULL);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end), returns = 0;
    while (returns < count && !unwind_is_signal_return(&unwinder, ips[returns]))
        returns++;
    CHECK(returns >= 2 && returns < count); /* the leaf, the handler, what called that */
    size_t raised = returns;
    while (raised < count && ips[raised] != raise_returns - 1)
        raised++;
    CHECK(raised < count);
    CHECK_U64(end, UNWIND_ROOT);
    modules_close(&modules);
}

/* A thread and its event. */
struct sampled_thread {
    struct event_traits traits;
    struct event event;
    int result;
    void *top; /* of its stack */
};

static void *run_sampled(void *argument)
{
    struct sampled_thread *self = argument;
    const struct event_shape shape = {
        .period_ns = 500000, .stack_bytes = FIXTURE_STACK_BYTES, .ring_bytes = 1u << 20};
    pthread_attr_t attributes;
    void *bottom;
    size_t bytes;
    pthread_getattr_np(pthread_self(), &attributes);
    pthread_attr_getstack(&attributes, &bottom, &bytes);
    pthread_attr_destroy(&attributes);
    self->top = (char *)bottom + bytes;
    self->result = event_open(&self->event, &self->traits, &shape, 0);
    fixture_outer(2000000);
    return NULL;
}

TEST(the_root_of_a_thread)
{
    enum unwind_end end;
    struct sampled_thread self = {.result = 0};
    bool found = false;
    prepare(fixture_libunwind());
    if (event_probe(&self.traits, false) != 0)
        SKIP("the kernel refuses perf_event_open");
    for (unsigned i = 0; i < 100 && !found; i++) {
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, run_sampled, &self) == 0);
        pthread_join(thread, NULL);
        REQUIRE(self.result == 0);
        struct ring ring = ring_over(self.event.mapping, self.event.mapping_bytes);
        found = fixture_take(&ring, fixture_leaf, self.top, &taken);
        event_close(&self.event);
    }
    REQUIRE(found);
    struct unwind_sample sample = whole_sample();
    size_t count = unwind_stack(&unwinder, &sample, ips, &end);
    check_chain(count);
    CHECK_U64(end, UNWIND_ROOT);
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

/* One word up from a frame pointer lies the return address. A frame pointer that points at itself,
 * or up and down: no more frames than there are words. */
TEST(frame_pointers_where_there_are_no_rules)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    uint64_t registers[ARCH_PERF_REGISTER_COUNT] = {0}, stack[64] = {0};
    registers[ARCH_PERF_INDEX_SP] = 0x10000;
    registers[ARCH_PERF_INDEX_FP] = 0x10010;
    registers[ARCH_PERF_INDEX_IP] = code;
    stack[2] = 0x10010;
    stack[3] = code + 0x105;
    struct unwind_sample sample = {
        .registers = registers, .stack = (const uint8_t *)stack, .stack_bytes = sizeof stack};
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
    stack[2] = 0x10000 + sizeof stack; /* the next frame lies beyond the copy */
    CHECK_U64(unwind_stack(&unwinder, &sample, ips, &end), 2);
    CHECK_U64(end, UNWIND_CUT);
    modules_close(&modules);
}

/* Interpreters that were made at run time push the address to return to, and jump. */
TEST(made_code_that_returns_to_where_no_call_was)
{
    enum unwind_end end;
    uint64_t code = code_without_rules();
    prepare(&no_library);
    uint64_t registers[ARCH_PERF_REGISTER_COUNT] = {0}, stack[64] = {0};
    registers[ARCH_PERF_INDEX_SP] = 0x10000;
    registers[ARCH_PERF_INDEX_FP] = 0x10010;
    registers[ARCH_PERF_INDEX_IP] = code;
    stack[2] = 0x10020;
    stack[3] = code + 0x300;
    struct unwind_sample sample = {
        .registers = registers, .stack = (const uint8_t *)stack, .stack_bytes = sizeof stack};
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
        uint64_t registers[ARCH_PERF_REGISTER_COUNT] = {0}, stack[64] = {0};
        memcpy((void *)(uintptr_t)(code + 0x800), cases[i].code, sizeof cases[i].code);
        registers[ARCH_PERF_INDEX_SP] = 0x10000;
        registers[ARCH_PERF_INDEX_IP] = code + 0x800 + cases[i].at;
        registers[ARCH_PERF_INDEX_FP] = cases[i].pops_fp != 0 ? 0 : 0x10100;
        unsigned word = cases[i].skip_words;
        if (cases[i].pops_fp != 0)
            stack[word++] = 0x10100;
        stack[word] = code + 0x105;
        stack[0x100 / 8 + 1] = code + 0x205;
        struct unwind_sample sample = {
            .registers = registers, .stack = (const uint8_t *)stack, .stack_bytes = sizeof stack};
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
