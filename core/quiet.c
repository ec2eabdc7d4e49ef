/* Holding the helper still while a thread of the app forks. Runs on both sides; see quiet.h. */
#include "quiet.h"

#include <limits.h>
#include <linux/futex.h>
#include <time.h>

#include "sys.h"

#define WAIT_PART_NS 50000000u /* a fork may be killed half-way, and then wakes nobody */

static void futex_wait(uint32_t *word, uint32_t value, uint64_t limit_ns)
{
    const struct timespec limit = {(time_t)(limit_ns / 1000000000u),
                                   (long)(limit_ns % 1000000000u)};
    sys4(SYS_futex, word, FUTEX_WAIT, value, &limit);
}

bool quiet_is_asked(const struct quiet *quiet)
{
    return (__atomic_load_n(&quiet->forking[0], __ATOMIC_SEQ_CST) |
            __atomic_load_n(&quiet->forking[1], __ATOMIC_SEQ_CST)) != 0;
}

/* Of the turn of that number, or where it is even of the next. */
static uint32_t slot_of_turn(uint32_t turn)
{
    return turn >> 1 & 1;
}

static void slot_leave(struct quiet *quiet, uint32_t slot)
{
    if (__atomic_sub_fetch(&quiet->forking[slot], 1, __ATOMIC_SEQ_CST) == 0)
        sys3(SYS_futex, &quiet->forking[slot], FUTEX_WAKE, 1);
}

/* Waits for the end of a turn. False when that took longer than until END_NS. */
static bool turn_wait(struct quiet *quiet, uint32_t turn, uint64_t end_ns)
{
    while (__atomic_load_n(&quiet->turn, __ATOMIC_SEQ_CST) == turn) {
        uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        if (now_ns >= end_ns)
            return false;
        futex_wait(&quiet->turn, turn, end_ns - now_ns);
    }
    return true;
}

struct quiet_fork quiet_ask(struct quiet *quiet, uint64_t limit_ns)
{
    struct quiet_fork fork = {.is_counted = true, .life = quiet->life};
    for (;;) {
        uint32_t turn = __atomic_load_n(&quiet->turn, __ATOMIC_SEQ_CST);
        fork.slot = slot_of_turn(turn + 1);
        __atomic_add_fetch(&quiet->forking[fork.slot], 1, __ATOMIC_SEQ_CST);
        /* Counted in time for the turn to come, unless the turns have moved on meanwhile. */
        if (__atomic_load_n(&quiet->turn, __ATOMIC_SEQ_CST) == turn) {
            if ((turn & 1) != 0)
                fork.waited_enough =
                    !turn_wait(quiet, turn, sys_clock_ns(CLOCK_MONOTONIC) + limit_ns);
            return fork;
        }
        slot_leave(quiet, fork.slot);
    }
}

void quiet_release(struct quiet *quiet, struct quiet_fork fork)
{
    if (fork.is_counted && fork.life == quiet->life)
        slot_leave(quiet, fork.slot);
}

void quiet_reset(struct quiet *copy)
{
    *copy = (struct quiet){.life = copy->life + 1};
}

bool quiet_is_sure(const struct quiet *copy, struct quiet_fork fork)
{
    return !fork.waited_enough && copy->at_work == 0 && copy->gave_up == 0;
}

void quiet_begin(struct quiet *quiet, const struct quiet_patience *patience)
{
    uint32_t turn = __atomic_add_fetch(&quiet->turn, 1, __ATOMIC_SEQ_CST);
    uint32_t *forking = &quiet->forking[slot_of_turn(turn)];
    uint64_t end_ns = 0;
    uint32_t count;
    while ((count = __atomic_load_n(forking, __ATOMIC_SEQ_CST)) != 0) {
        uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
        end_ns = end_ns != 0 ? end_ns : now_ns + patience->limit_ns;
        if (now_ns >= end_ns || patience->is_over(patience->context)) {
            __atomic_store_n(&quiet->gave_up, 1, __ATOMIC_SEQ_CST);
            break;
        }
        futex_wait(forking, count, WAIT_PART_NS);
    }
    __atomic_store_n(&quiet->at_work, 1, __ATOMIC_SEQ_CST);
}

void quiet_end(struct quiet *quiet)
{
    __atomic_store_n(&quiet->at_work, 0, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&quiet->turn, 1, __ATOMIC_SEQ_CST);
    if (quiet_is_asked(quiet))
        sys3(SYS_futex, &quiet->turn, FUTEX_WAKE, INT_MAX);
}

void quiet_resign(struct quiet *quiet)
{
    if ((__atomic_load_n(&quiet->turn, __ATOMIC_SEQ_CST) & 1) != 0)
        quiet_end(quiet);
}

void quiet_yield(struct quiet *quiet, const struct quiet_patience *patience)
{
    if (!quiet_is_asked(quiet))
        return;
    quiet_end(quiet);
    quiet_begin(quiet, patience);
}
