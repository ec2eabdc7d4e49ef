/*
 * A table of threads for the tests of threads.c, and this very thread as one of them, with an event
 * of the helper's.
 */
#ifndef SELFSAMPLE_TESTS_THREADS_FIXTURE_H
#define SELFSAMPLE_TESTS_THREADS_FIXTURE_H

#include "threads.h"

#include <errno.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define PERIOD_NS 1000000u
#define SECOND_NS 1000000000ull
#define NOW_NS    (5 * SECOND_NS)
#define MIB       (1024u * 1024)

static struct arena arena;
static struct event_traits traits;

/* An empty table; the one before is void. */
static inline struct threads table(uint64_t budget_bytes)
{
    struct threads threads;
    struct threads_plan plan = {.traits = &traits,
                                .period_ns = PERIOD_NS,
                                .budget_bytes = budget_bytes,
                                .app_pid = getpid()};
    arena_destroy(&arena);
    REQUIRE(threads_init(&threads, &plan, &arena) == 0);
    return threads;
}

/* A birth without an event. */
static inline struct birth birth_of(pid_t tid)
{
    return (struct birth){.tid = tid,
                          .event.fd = -1,
                          .refusal = -EPERM,
                          .period_ns = 777,
                          .stack_bytes = 4096,
                          .cpu_ns = 55,
                          .name = "born"};
}

static inline struct thread *admit(struct threads *threads, pid_t tid, uint64_t now_ns)
{
    struct birth birth = birth_of(tid);
    return threads_admit(threads, &birth, now_ns);
}

static inline void events_or_skip(void)
{
    if (event_probe(&traits, false) != 0)
        SKIP("the kernel refuses perf_event_open");
}

static inline void burn(uint64_t ns)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    uint64_t end_ns = (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec + ns;
    do {
        for (unsigned i = 0; i < 20000; i++)
            __asm__ volatile("");
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while ((uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec < end_ns);
}

/* This thread, settled in a table of COUNT live threads. */
static inline struct thread *settled(struct threads *threads, uint32_t count,
                                     struct event_shape *shape)
{
    events_or_skip();
    struct event event;
    struct thread *thread = admit(threads, getpid(), NOW_NS);
    for (uint32_t i = 1; i < count; i++)
        admit(threads, (pid_t)(1000000 + i), NOW_NS);
    REQUIRE(thread_open_settled(threads, thread, &event, shape) == 0);
    CHECK_U64(event.mapping_bytes, shape->ring_bytes + EVENT_PAGE_BYTES);
    thread_replace(threads, thread, &event, shape, 0);
    return thread;
}

#endif
