/*
 * A sample of this very process for the tests of the stages behind the rings: its threads,
 * libunwind as the preload loads it, and a call chain whose return addresses are known without any
 * unwinding.
 */
#ifndef SELFSAMPLE_TESTS_SAMPLE_FIXTURE_H
#define SELFSAMPLE_TESTS_SAMPLE_FIXTURE_H

#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "check.h"
#include "event.h"
#include "record.h"
#include "ring.h"
#include "unwind.h"

#define FIXTURE_STACK_BYTES 32768u

/* Copies out of the ring: a record lives no longer than its place there. */
struct fixture_sample {
    struct record record;
    uint64_t registers[ARCH_PERF_REGISTER_COUNT];
    uint8_t stack[FIXTURE_STACK_BYTES];
};

/* Where the functions of the chain return to, outermost last. */
static uint64_t fixture_returns[3];
static volatile int fixture_sink;

#define FIXTURE_CHAIN __attribute__((noinline, unused))

/* Runs for some ms without touching memory: an interrupt finds it here. */
FIXTURE_CHAIN static void fixture_leaf(unsigned long rounds)
{
    fixture_returns[0] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    for (unsigned long i = 0; i < rounds; i++)
        __asm__ volatile("");
}

FIXTURE_CHAIN static void fixture_middle(unsigned long rounds)
{
    fixture_returns[1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    fixture_leaf(rounds);
    fixture_sink++; /* not a tail call */
}

FIXTURE_CHAIN static void fixture_outer(unsigned long rounds)
{
    fixture_returns[2] = (uint64_t)(uintptr_t)__builtin_return_address(0);
    fixture_middle(rounds);
    fixture_sink++;
}

/* Where the main thread's stack began, as the dynamic loader noted it. */
extern void *__libc_stack_end;

/* Is this a sample whose instruction lies in FUNCTION? Its copy must be full or reach up to TOP:
 * where a page of the stack is not in memory at that moment, the kernel's copy ends there. */
static inline bool fixture_fits(const struct record *record, void *function, const void *top)
{
    if (record->kind != RECORD_SAMPLE || record->sample.registers == NULL)
        return false;
    uint64_t stack = record->sample.registers[ARCH_PERF_INDEX_SP];
    uint64_t bytes = record->sample.stack_bytes;
    return record->sample.registers[ARCH_PERF_INDEX_IP] - (uint64_t)(uintptr_t)function < 512 &&
           (bytes == FIXTURE_STACK_BYTES || stack + bytes >= (uint64_t)(uintptr_t)top);
}

/* Takes the oldest sample that fits out of RING. */
static inline bool fixture_take(struct ring *ring, void *function, const void *top,
                                struct fixture_sample *sample)
{
    static uint64_t bounce[RECORD_BYTES_MAX / 8];
    size_t bytes;
    bool found = false;
    for (const void *data; !found && (data = ring_peek(ring, &bytes, bounce)) != NULL;) {
        struct record *record = &sample->record;
        found =
            record_decode(record, data, bytes, false) == 0 && fixture_fits(record, function, top);
        if (found) {
            memcpy(sample->registers, record->sample.registers, sizeof sample->registers);
            memcpy(sample->stack, record->sample.stack, record->sample.stack_bytes);
            record->sample.registers = sample->registers;
            record->sample.stack = sample->stack;
        }
        ring_advance(ring, bytes);
    }
    return found;
}

static struct fixture_sample *volatile fixture_alarm_sample; /* NULL: none is wanted (any more) */
static uint64_t fixture_alarm_function;

/* Takes a sample of what the alarm interrupted, as a ring would show it. */
static inline void fixture_alarm(int signal, siginfo_t *info, void *context)
{
    struct fixture_sample *sample = fixture_alarm_sample;
    const uint8_t *frame = (const uint8_t *)context - ARCH_SIGNAL_CONTEXT_AT;
    (void)signal, (void)info;
    if (sample == NULL)
        return;
    for (unsigned i = 0; i < ARCH_PERF_REGISTER_COUNT; i++)
        memcpy(&sample->registers[i], frame + arch_signal_register_at[i], 8);
    if (sample->registers[ARCH_PERF_INDEX_IP] - fixture_alarm_function >= 512)
        return;
    uint64_t sp = sample->registers[ARCH_PERF_INDEX_SP];
    uint64_t bytes = ((uint64_t)(uintptr_t)__libc_stack_end - sp) & ~7ull;
    if (bytes > sizeof sample->stack)
        bytes = sizeof sample->stack;
    memcpy(sample->stack, (const void *)(uintptr_t)sp, bytes);
    sample->record = (struct record){.kind = RECORD_SAMPLE};
    sample->record.sample.registers = sample->registers;
    sample->record.sample.stack = sample->stack;
    sample->record.sample.stack_bytes = sample->record.sample.stack_copy_bytes = bytes;
    fixture_alarm_sample = NULL;
}

/* fixture_sample_in where there are no events. */
static inline void fixture_sample_by_alarm(void *function, void (*run)(unsigned long),
                                           struct fixture_sample *sample)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    struct sigaction action = {.sa_sigaction = fixture_alarm, .sa_flags = SA_SIGINFO | SA_RESTART};
    struct sigaction before;
    fixture_alarm_function = (uint64_t)(uintptr_t)function;
    fixture_alarm_sample = sample;
    sigaction(SIGALRM, &action, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    for (unsigned i = 0; i < 1000 && fixture_alarm_sample != NULL; i++)
        run(2000000);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    REQUIRE(fixture_alarm_sample == NULL);
}

/* Calls RUN until a sample of this thread lies in FUNCTION. */
static inline void fixture_sample_in(void *function, void (*run)(unsigned long),
                                     struct fixture_sample *sample)
{
    const struct event_shape shape = {
        .period_ns = 500000, .stack_bytes = FIXTURE_STACK_BYTES, .ring_bytes = 1u << 20};
    struct event_traits traits;
    struct event event;
    bool found = false;
    if (event_probe(&traits, false) != 0) {
        fixture_sample_by_alarm(function, run, sample);
        return;
    }
    for (unsigned i = 0; i < 100 && !found; i++) {
        REQUIRE(event_open(&event, &traits, &shape, 0) == 0);
        struct ring ring = ring_over(event.mapping, event.mapping_bytes);
        run(2000000);
        found = fixture_take(&ring, function, __libc_stack_end, sample);
        event_close(&event);
    }
    REQUIRE(found);
}

/* libunwind, once for the program; NULL where it is not installed. */
static inline const struct unwind_library *fixture_libunwind(void)
{
    static struct unwind_library library;
    if (library.address_space != NULL)
        return &library;
    void *handle = dlopen(unwind_library_file, RTLD_NOW | RTLD_LOCAL);
    if (handle == NULL)
        return NULL;
    for (unsigned i = 0; i < UNWIND_SYMBOLS; i++)
        library.symbols[i] = dlsym(handle, unwind_symbol_names[i]);
    return unwind_library_prepare(&library) == 0 ? &library : NULL;
}

#endif
