/*
 * A stack builder over the modules of this very process, with all that it needs, for tests of what
 * is made of its profile.
 */
#ifndef SELFSAMPLE_TESTS_UNIT_BUILDER_FIXTURE_H
#define SELFSAMPLE_TESTS_UNIT_BUILDER_FIXTURE_H

#include "check.h"
#include "stack_frames.h"

static struct arena arena, names_arena;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static struct profile profile;
static struct stack_builder builder;

static const struct unwind_library no_library;

/* Makes all of them anew: an empty profile; NAMES_ARENA is empty as well. */
static void builder_prepare(void)
{
    arena_destroy(&arena);
    arena_destroy(&names_arena);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    REQUIRE(modules_scan(&modules) == 0);
    unwinder_init(&unwinder, &no_library, &modules, &memory, &arena);
    profile_init(&profile, &arena);
    REQUIRE(stack_builder_init(&builder, &modules, &unwinder, &profile, CONFIG_THREADS_NAME,
                               &arena) == 0);
}

#endif
