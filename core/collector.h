/*
 * From records to the profile: takes the records of all threads' rings in the order of their times,
 * keeps the module map and the thread names up to date with them, unwinds the samples and counts
 * them.
 *
 * Thread safety: one task at a time; the helper. No libc, no allocation but from the arena.
 */
#ifndef SELFSAMPLE_CORE_COLLECTOR_H
#define SELFSAMPLE_CORE_COLLECTOR_H

#include <stdbool.h>
#include <stdint.h>

#include "app_memory.h"
#include "config.h"
#include "kernel_time.h"
#include "labels.h"
#include "mailbox.h"
#include "modules.h"
#include "perf_map.h"
#include "process_watch.h"
#include "profile.h"
#include "stack_frames.h"
#include "threads.h"
#include "unwind.h"

struct collector {
    struct arena *arena;
    struct app_memory memory;
    struct modules modules;
    struct perf_map perf_map;
    struct process_watch watch;
    struct unwinder unwinder;
    struct profile profile;
    struct stack_builder stacks;
    struct threads threads;
    struct kernel_time kernel;
    struct lateness lateness;    /* of samples */
    struct sampling_share share; /* of thinned births */
    struct labels *labels;       /* NULL: none */

    /* Called between records: lets the helper be stopped where it holds nothing (fork). */
    void (*between_records)(void *context);
    void *context;

    bool paused;      /* samples do not count; all other records do */
    bool exec_seen;   /* the process has become another program: nothing more is ours */
    uint64_t exec_ns; /* when; 0 where no record told of it; CLOCK_MONOTONIC */
    bool scan_wanted; /* a thread was made that we may not know */
    bool maps_wanted; /* not read yet, or records of mappings may have been lost */

    /* statistics */
    uint64_t whole, truncated, throttled;
    uint64_t longest_ns;  /* the most that one thread's first event had counted at a sample */
    uint64_t unplaced_ns; /* see accounts.c: of long lives without a sample */
    uint64_t lost; /* samples of settled events; those of births are carried by the next one */

    uint64_t maps_read_ns; /* when they were last read */

    uint8_t *bounce; /* for records that wrap */
    struct due *due; /* heap of rings by the time of their next record */
};

/* What the collector stands on; all of it outlives it. */
struct collector_setup {
    struct arena *arena;
    const struct config *config;
    struct threads_plan plan;
    const struct unwind_library *library;
    const struct linked *linked; /* see modules.h */
    uint64_t our_address;        /* any code address of selfsample itself */
    struct lateness lateness;    /* of interrupts, as far as it is known */
    struct labels *labels;       /* what the app's threads say of themselves; NULL: nothing */
    uint64_t linker_list;        /* see process_watch.h */
    void (*between_records)(void *context);
    void *context;
};

/* 0, or -ENOMEM. */
int collector_init(struct collector *collector, const struct collector_setup *setup);

/* Takes the births that wait in the mailbox. */
void collector_take_births(struct collector *collector, struct mailbox *mailbox);

/*
 * Handles all records that are not younger than UNTIL_NS (CLOCK_MONOTONIC; UINT64_MAX: all), in the
 * order of their times over all rings. Ends early where the process has exec'd.
 */
void collector_drain(struct collector *collector, uint64_t until_ns);

/* The same for the ring of one thread. */
void collector_drain_thread(struct collector *collector, struct thread *thread, uint64_t until_ns);

/* Where no record tells (timers): looks whether libraries have come or gone, and whether the
 * process has become another program, and returns that; AT_ONCE: though it has just looked. Before
 * a drain. */
bool collector_look(struct collector *collector, bool at_once);

/* Reads the process's maps anew, if they are not known or records of them were lost. */
void collector_read_maps(struct collector *collector);

/* Tells what the process has used, by its clock, when all records up to now are handled. */
void collector_note_clock(struct collector *collector, uint64_t app_cpu_ns);

/* Ends all events and gives back what is not in the arena. */
void collector_close(struct collector *collector);

/* Lets the helper be stopped here, as between records. */
void collector_pause(const struct collector *collector);

#endif
