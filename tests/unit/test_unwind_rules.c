/* unwind_rules: whole stacks of this very process, by rules alone where nothing else is needed. */
#include "unwind.h"

#include <pthread.h>
#include <signal.h>

#include "arch_fixture.h"
#include "unwind_fixture.h"

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

__asm__(ARCH_POPPED_CODE);

void popped_leaf(unsigned long rounds);

FIXTURE_CALLER(call_popped, popped_leaf)

TEST(a_frame_pointer_that_was_popped)
{
    unwind_sampled(&no_library, popped_leaf, call_popped, 4);
    CHECK_U64(ips[2], fixture_returns[0] - 1);
    modules_close(&modules);
}

__asm__(ARCH_ALIGNED_CODE);

void aligned(unsigned long rounds);
void aligned_callee(unsigned long rounds);

/* Saves the register, and has something else in it. */
void aligned_callee(unsigned long rounds)
{
    __asm__ volatile("" ::: ARCH_ALIGNED_REGISTER);
    fixture_leaf(rounds);
    fixture_sink++;
}

FIXTURE_CHAIN static void call_aligned(unsigned long rounds)
{
    fixture_returns[2] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    aligned(rounds);
    fixture_sink++;
}

TEST(a_frame_that_begins_at_a_saved_register)
{
    unwind_sampled(&no_library, fixture_leaf, call_aligned, 5);
    CHECK_U64(ips[4], fixture_returns[2] - 1);
    CHECK_U64(unwinder.missed, 0);
    modules_close(&modules);
}

__asm__(ARCH_KEPT_CODE);

extern const char kept_here[];

/* As in libc's vfork; where the processor signs return addresses, a signed one. */
TEST(a_return_address_in_a_register)
{
    enum unwind_end end;
    uint64_t words[2] = {0}, registers[ARCH_PERF_REGISTER_COUNT] = {0};
    uint64_t returns = (uint64_t)(uintptr_t)fixture_outer + 4;
    const struct unwind_sample sample = {
        .registers = registers, .stack = (const uint8_t *)words, .stack_bytes = sizeof words};
    prepare(&no_library);
    registers[ARCH_PERF_INDEX_IP] = (uint64_t)(uintptr_t)kept_here;
    registers[ARCH_PERF_INDEX_SP] = (uint64_t)(uintptr_t)words;
    registers[arch_dwarf_to_perf[9]] = arch_signed(returns);
    REQUIRE(unwind_stack(&unwinder, &sample, ips, &end) >= 2);
    CHECK_U64(ips[1], returns - 1);
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
