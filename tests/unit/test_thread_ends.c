/* thread_ends: what is booked of the time that no thread's clock shows, and under which names. */
#include "thread_ends.h"

#include <stdio.h>

#include "check.h"

#define LEAST_NS 1000000u

static struct arena arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static struct profile profile;
static struct stack_builder builder;
static struct thread_ends ends;

static const struct unwind_library no_library;

static void prepare(enum config_threads threads)
{
    arena_destroy(&arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    unwinder_init(&unwinder, &no_library, &modules, &memory, &arena);
    profile_init(&profile, &arena);
    REQUIRE(stack_builder_init(&builder, &modules, &unwinder, &profile, threads, &arena) == 0);
    ends = (struct thread_ends){.used = 0};
}

/* COUNT threads of that name, with an event or without. */
static void end(const char *name, unsigned count, bool with_event)
{
    struct thread thread = {.tid = 900, .text = UINT32_MAX};
    snprintf(thread.name, sizeof thread.name, "%s", name);
    thread.event.mapping = with_event ? &thread : NULL;
    for (unsigned i = 0; i < count; i++)
        thread_ends_note(&ends, &thread);
}

/* The weight of NAME;[thread end]. */
static uint64_t booked(const char *name)
{
    for (uint32_t i = 0; i < profile_node_count(&profile); i++) {
        const struct profile_node *node = profile_node_at(&profile, i);
        if (node->parent == PROFILE_NONE)
            continue;
        uint32_t above = profile_node_at(&profile, node->parent)->frame;
        uint64_t text = profile_frame_at(&profile, above)->address;
        uint64_t own = profile_frame_at(&profile, node->frame)->address;
        if (strcmp(stack_text(&builder, text), name) == 0 &&
            strcmp(stack_text(&builder, own), "[thread end]") == 0)
            return node->weight_ns;
    }
    return 0;
}

TEST(few_ends_are_not_worth_a_line)
{
    prepare(CONFIG_THREADS_NAME);
    end("worker", 99, true);
    CHECK(!thread_ends_are_many(&ends));
    thread_ends_book(&ends, &builder, 5000000, LEAST_NS);
    CHECK_U64(profile.weight_ns, 0);
    end("worker", 1, true);
    thread_ends_book(&ends, &builder, LEAST_NS - 1, LEAST_NS);
    CHECK_U64(profile.weight_ns, 0);
    thread_ends_book(&ends, &builder, 5000000, LEAST_NS);
    CHECK_U64(profile.weight_ns, 5000000);
    CHECK_U64(booked("worker"), 5000000);
}

/* Seconds are missing: so much no end takes. */
TEST(an_end_explains_so_much_and_no_more)
{
    prepare(CONFIG_THREADS_NAME);
    end("worker", 1000, false);
    thread_ends_book(&ends, &builder, 5000000000, LEAST_NS);
    CHECK(booked("worker") >= 1000 * 5000 && booked("worker") <= 1000 * 20000);
    uint64_t before_ns = profile.weight_ns;
    thread_ends_book(&ends, &builder, 5000000000, LEAST_NS);
    CHECK_U64(profile.weight_ns, before_ns);
}

/* Years of ends that took less than they may do not explain one large gap. */
TEST(what_ends_did_not_take_does_not_pile_up)
{
    prepare(CONFIG_THREADS_NAME);
    for (unsigned i = 0; i < 1000; i++) {
        end("worker", 1000, false);
        thread_ends_book(&ends, &builder, LEAST_NS, LEAST_NS);
    }
    uint64_t before_ns = booked("worker");
    CHECK(before_ns <= 1000ull * LEAST_NS && before_ns >= 999ull * LEAST_NS);
    thread_ends_book(&ends, &builder, 5000000000, LEAST_NS);
    CHECK(booked("worker") - before_ns <= 1000 * 20000);
}

TEST(names_have_their_parts)
{
    prepare(CONFIG_THREADS_NAME);
    end("a", 300, false);
    end("b", 100, false);
    thread_ends_book(&ends, &builder, 2000000, LEAST_NS);
    CHECK_U64(booked("a"), 1500000);
    CHECK_U64(booked("b"), 500000);
    end("c", 10, true); /* an event to be taken down takes longer */
    thread_ends_book(&ends, &builder, 1000000, 1);
    CHECK(booked("c") > (booked("b") - 500000) * 2);
}

TEST(many_names_share_a_line)
{
    prepare(CONFIG_THREADS_NAME);
    for (unsigned i = 0; i < 200; i++) {
        char name[THREAD_NAME_BYTES];
        snprintf(name, sizeof name, "worker-%u", i);
        end(name, 1, true);
    }
    thread_ends_book(&ends, &builder, 10000000, LEAST_NS);
    CHECK_U64(booked("worker-0"), 50000);
    CHECK_U64(booked("worker-30"), 50000);
    CHECK_U64(booked("worker-31"), 0);
    CHECK_U64(booked("[other threads]"), 10000000 - 31 * 50000);
}

/* Where each thread has a frame of its own, ends do not. */
TEST(ends_are_of_a_name_and_not_of_a_thread)
{
    prepare(CONFIG_THREADS_TID);
    end("worker", 100, true);
    thread_ends_book(&ends, &builder, 2000000, LEAST_NS);
    CHECK_U64(booked("worker"), 2000000);
    prepare(CONFIG_THREADS_NONE);
    end("worker", 100, true);
    thread_ends_book(&ends, &builder, 2000000, LEAST_NS);
    CHECK_U64(profile.weight_ns, 2000000);
    CHECK_U64(profile_node_count(&profile), 1);
}
