/* Watches what is known of deep stacks. Runs in the helper; never waits for a thread. */
#include "deep_stack.h"

#include <errno.h>

#include "descriptors.h"
#include "event.h"
#include "sys.h"

#define ROOM_FIRST 1024u

/* A write to a watched word costs its thread this; a hundred times as long is rested. */
#define WRITE_COSTS_NS 12000u
#define REST_TIMES     100u
#define REST_NS_MAX    10000000000u

/* So many watches without use are nothing; each more doubles the rest. */
#define USELESS_FREE    3u
#define USELESS_MAX     10u
#define USELESS_REST_NS 2000000u

bool deep_stack_is_possible(void)
{
    volatile uint64_t word = 0;
    uint64_t writes = 0;
    int fd = event_open_watch((pid_t)sys0(SYS_gettid), (uint64_t)(uintptr_t)&word);
    if (fd < 0)
        return false;
    word = 1;
    bool counted = event_read_count_of(fd, &writes) == 0 && writes == 1;
    sys_close(fd);
    return counted;
}

void deep_stack_reset(struct deep_stack *deep)
{
    *deep = (struct deep_stack){.watch = -1, .ips = deep->ips, .room = deep->room};
}

void deep_stack_end(struct deep_stack *deep)
{
    if (deep->watch >= 0)
        sys_close(deep->watch);
    deep->watch = -1;
    deep->slot = deep->since_ns = 0;
    deep->count = 0;
}

bool deep_stack_is_rested(const struct deep_stack *deep, uint64_t now_ns)
{
    return now_ns >= deep->rests_ns;
}

/* Notes whether the watch that ends was of use. */
static void judge_use(struct deep_stack *deep)
{
    if (deep->was_used)
        deep->useless = 0;
    else if (deep->useless < USELESS_FREE + USELESS_MAX)
        deep->useless++;
    deep->was_used = false;
    if (deep->useless > USELESS_FREE)
        deep->rests_ns =
            sys_clock_ns(CLOCK_MONOTONIC) + (USELESS_REST_NS << (deep->useless - USELESS_FREE));
}

int deep_stack_watch(struct deep_stack *deep, pid_t tid, uint64_t slot)
{
    deep_stack_end(deep);
    judge_use(deep);
    int fd = event_open_watch(tid, slot);
    if (fd < 0)
        return fd;
    if (descriptor_is_for_files(fd)) {
        sys_close(fd);
        return -EMFILE;
    }
    deep->watch = fd;
    deep->slot = slot;
    deep->since_ns = UINT64_MAX;
    deep->unbroken_ns = 0;
    return 0;
}

int deep_stack_know(struct deep_stack *deep, const uint64_t *ips, size_t count, struct arena *arena)
{
    if (count > deep->room) {
        uint32_t room = deep->room == 0 ? ROOM_FIRST : deep->room;
        while (room < count)
            room *= 2;
        uint64_t *larger = arena_alloc_array(arena, room, sizeof *larger);
        if (larger == NULL) {
            deep_stack_end(deep);
            return -ENOMEM;
        }
        deep->ips = larger;
        deep->room = room;
    }
    __builtin_memcpy(deep->ips, ips, count * sizeof *ips);
    deep->count = (uint32_t)count;
    deep->since_ns = sys_clock_ns(CLOCK_MONOTONIC);
    return 0;
}

/* Reads how often the word was written, and ends the watch if it was. */
static bool is_unbroken(struct deep_stack *deep)
{
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC), writes = UINT64_MAX;
    if (event_read_count_of(deep->watch, &writes) == 0 && writes == 0) {
        deep->unbroken_ns = now_ns;
        return true;
    }
    /* A single one costs less than the watch. */
    uint64_t rest_ns = writes < REST_NS_MAX / WRITE_COSTS_NS / REST_TIMES
                           ? (writes - 1) * WRITE_COSTS_NS * REST_TIMES
                           : REST_NS_MAX;
    if (deep->rests_ns < now_ns + rest_ns)
        deep->rests_ns = now_ns + rest_ns;
    deep_stack_end(deep);
    return false;
}

bool deep_stack_holds(struct deep_stack *deep, uint64_t time_ns)
{
    if (deep->watch < 0 || time_ns <= deep->since_ns)
        return false;
    if (time_ns > deep->unbroken_ns && !is_unbroken(deep))
        return false;
    deep->was_used = true;
    return true;
}

bool deep_stack_look(struct deep_stack *deep)
{
    return deep->watch < 0 || is_unbroken(deep);
}
