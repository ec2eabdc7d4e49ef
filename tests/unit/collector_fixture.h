/* A collector for threads of this very process, with all that it needs. */
#ifndef SELFSAMPLE_TESTS_UNIT_COLLECTOR_FIXTURE_H
#define SELFSAMPLE_TESTS_UNIT_COLLECTOR_FIXTURE_H

#include <unistd.h>

#include "check.h"
#include "collector.h"

#define PERIOD_NS 1000000u

static struct arena arena;
static struct collector collector;
static struct mailbox mailbox;
static struct config config;
static struct event_traits traits;
static unsigned pauses; /* of the collector, between records */

static const struct unwind_library no_library;

static inline void on_pause(void *context)
{
    (*(unsigned *)context)++;
}

/* Makes all of them anew, for events with TRAITS. */
static inline void collector_prepare(void)
{
    arena_destroy(&arena);
    memset(&mailbox, 0, sizeof mailbox);
    config = (struct config){.threads = CONFIG_THREADS_NAME};
    const struct collector_setup setup = {
        .arena = &arena,
        .config = &config,
        .plan = {.traits = &traits,
                 .period_ns = PERIOD_NS,
                 .budget_bytes = 8u << 20,
                 .app_pid = getpid()},
        .library = &no_library,
        .between_records = on_pause,
        .context = &pauses,
    };
    REQUIRE(collector_init(&collector, &setup) == 0);
    pauses = 0;
}

#endif
