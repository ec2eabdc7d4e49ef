/* Timers, their slots, and what happens on their signal. Runs in the app's threads. */
#include "timers.h"

#include <sys/mman.h>
#include <sys/prctl.h>

#include "mapping.h"
#include "record.h"
#include "sampling.h"
#include "timer_signal.h"

/* glibc has no better name for it. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Rings get smaller with the number of threads. What is not written is not touched. */
#define RING_BYTES_FEW  (512u * 1024)
#define RING_BYTES_SOME (256u * 1024)
#define RING_BYTES_MANY (128u * 1024)
#define THREADS_FEW     32u
#define THREADS_SOME    256u
#define RING_RECORDS    8u /* the stack copy is such that so many fit */

#define MOVE_TRIES 1000u

/* Between two ticks that find it running a thread may have used little, if many take turns. */
#define TICK_PARTS 16u

enum slot_state { SLOT_FREE, SLOT_TAKEN, SLOT_ACTIVE, SLOT_BUSY, SLOT_CLOSING };
#define STATE_BITS              3u
#define STATE_OF(word)          ((enum slot_state)((word) & ((1u << STATE_BITS) - 1)))
#define GENERATION(word)        ((word) >> STATE_BITS)
#define WORD(generation, state) ((uint32_t)(generation) << STATE_BITS | (uint32_t)(state))

/* What a timer's signal brings: slot and generation, so that one that comes late is known. */
#define INDEX_BITS 14u
_Static_assert(TIMERS_SLOTS == 1u << INDEX_BITS, "an index does not fit");
#define GENERATION_MASK ((1u << (31u - INDEX_BITS)) - 1)

/* NULL where its block is not mapped, since no slot of that was ever taken. */
static struct timer_slot *slot_at(const struct timers *timers, uint32_t index)
{
    struct timer_slot *block =
        __atomic_load_n(&timers->blocks[index / TIMERS_BLOCK], __ATOMIC_ACQUIRE);
    return block != NULL ? &block[index % TIMERS_BLOCK] : NULL;
}

/* The same, but its block is mapped now. NULL: there is no memory for it. */
static struct timer_slot *slot_mapped(struct timers *timers, uint32_t index)
{
    struct timer_slot *block = mapping_late_table(&timers->blocks[index / TIMERS_BLOCK],
                                                  TIMERS_BLOCK * sizeof(struct timer_slot));
    return block != NULL ? &block[index % TIMERS_BLOCK] : NULL;
}

uint64_t timers_tick_ns(void)
{
    struct timespec tick; /* the resolution of the clock that ticks move */
    if (sys2(SYS_clock_getres, CLOCK_MONOTONIC_COARSE, &tick) != 0 || tick.tv_nsec <= 0)
        return 10000000u;
    return (uint64_t)tick.tv_nsec;
}

static bool slot_change(struct timer_slot *slot, uint32_t from, uint32_t to)
{
    return __atomic_compare_exchange_n(&slot->state, &from, to, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
}

int timers_prepare(struct timers *timers)
{
    int signal = __atomic_load_n(&timers->signal, __ATOMIC_ACQUIRE);
    if (signal != 0 && timer_signal_is_taken(timers->handler, signal))
        timers_change_signal(timers, signal);
    if (__atomic_load_n(&timers->signal, __ATOMIC_ACQUIRE) != 0)
        return 0;
    signal = timers->has_no_signal ? 0 : timer_signal_choose(timers->handler, 0);
    int result = signal != 0 ? timer_signal_take(timers->handler, signal) : -EBUSY;
    if (result == 0)
        __atomic_store_n(&timers->signal, signal, __ATOMIC_SEQ_CST);
    return result;
}

/* The first that is free: the rings of the first slots are warm. */
static struct timer_slot *slot_take(struct timers *timers, int *error)
{
    for (uint32_t i = 0; i < TIMERS_SLOTS; i++) {
        struct timer_slot *slot = slot_mapped(timers, i);
        if (slot == NULL) {
            *error = -ENOMEM;
            return NULL;
        }
        uint32_t word = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
        if (STATE_OF(word) != SLOT_FREE ||
            !slot_change(slot, word, WORD(GENERATION(word), SLOT_TAKEN)))
            continue;
        uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_RELAXED);
        while (used < i + 1 && !__atomic_compare_exchange_n(&timers->used, &used, i + 1, false,
                                                            __ATOMIC_RELAXED, __ATOMIC_RELAXED))
            continue;
        slot->index = i;
        return slot;
    }
    *error = -ENOSPC;
    return NULL;
}

static void slot_free(struct timer_slot *slot)
{
    uint32_t word = __atomic_load_n(&slot->state, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->state, WORD(GENERATION(word) + 1, SLOT_FREE), __ATOMIC_RELEASE);
}

static void slot_end_timer(struct timer_slot *slot)
{
    if (slot->has_timer)
        sys1(SYS_timer_delete, slot->timer);
    slot->has_timer = false;
}

static int slot_map(const struct timers *timers, struct timer_slot *slot)
{
    if (slot->mapping != NULL)
        return 0;
    uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_RELAXED);
    size_t ring_bytes = used <= THREADS_FEW    ? RING_BYTES_FEW
                        : used <= THREADS_SOME ? RING_BYTES_SOME
                                               : RING_BYTES_MANY;
    size_t bytes = RING_WRITER_CONTROL_BYTES + ring_bytes;
    void *mapping = mapping_not_for_forks(bytes);
    if (sys_is_error(mapping))
        return (int)(intptr_t)mapping;
    sys3(SYS_madvise, mapping, bytes, MADV_DONTFORK);
    slot->mapping = mapping;
    slot->mapping_bytes = bytes;
    return 0;
}

static uint32_t stack_bytes_for(const struct timers *timers, const struct timer_slot *slot)
{
    uint32_t most = (uint32_t)(slot->mapping_bytes - RING_WRITER_CONTROL_BYTES) / RING_RECORDS -
                    RECORD_SAMPLE_FIXED_BYTES - 8;
    if (timers->stack_bytes != 0 && timers->stack_bytes < most)
        most = timers->stack_bytes;
    return (most < ring_writer_stack_bytes_max() ? most : ring_writer_stack_bytes_max()) & ~7u;
}

static int slot_create_timer(struct timers *timers, struct timer_slot *slot, pid_t tid)
{
    uint32_t generation = GENERATION(slot->state) & GENERATION_MASK;
    slot->signal = __atomic_load_n(&timers->signal, __ATOMIC_SEQ_CST);
    if (slot->signal == 0)
        return -EBUSY;
    struct sigevent event = {
        .sigev_notify = SIGEV_THREAD_ID,
        .sigev_signo = slot->signal,
        .sigev_value.sival_int = (int)(generation << INDEX_BITS | slot->index),
    };
    event.sigev_notify_thread_id = tid;
    int result = (int)sys3(SYS_timer_create, TIMERS_CLOCK(tid), &event, &slot->timer);
    slot->has_timer = result == 0;
    return result;
}

static int slot_make_ready(struct timers *timers, struct timer_slot *slot, pid_t tid)
{
    slot_end_timer(slot); /* of a thread that ended unseen */
    int result = slot_map(timers, slot);
    if (result == 0)
        result = slot_create_timer(timers, slot, tid);
    if (result != 0)
        return result;
    slot->writer =
        ring_writer_over(slot->mapping, slot->mapping_bytes, (pid_t)sys0(SYS_getpid), tid);
    slot->writer.has_callchain = timers->has_callchain;
    slot->stack_bytes = stack_bytes_for(timers, slot);
    slot->tick_ns = timers_tick_ns();
    slot->name[0] = '\0';
    slot->spared = slot->was_spared = false;
    return 0;
}

struct timer_slot *timers_open(struct timers *timers, pid_t tid, uint64_t period_ns,
                               uint64_t random, int *error)
{
    *error = timers_prepare(timers);
    if (*error != 0)
        return NULL;
    struct timer_slot *slot = slot_take(timers, error);
    if (slot != NULL)
        *error = slot_make_ready(timers, slot, tid);
    if (*error == 0) {
        slot->period_ns = period_ns > slot->tick_ns ? period_ns : slot->tick_ns;
        slot->random = random;
        return slot;
    }
    if (slot != NULL)
        slot_free(slot);
    return NULL;
}

static struct timespec timespec_of(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

static const struct itimerspec never;

/*
 * Sets when the next signal comes, if any is to come. It comes at the tick after the timer's time,
 * half a tick late on the average, which is taken off. A program that takes the signal away (by
 * waiting for it) leaves the timer running: it goes on by its interval.
 */
static int slot_set_time(const struct timer_slot *slot, uint64_t first_ns)
{
    uint64_t half_ns = slot->tick_ns / 2;
    bool at_each_tick = slot->period_ns <= slot->tick_ns;
    uint64_t value_ns = at_each_tick || first_ns <= half_ns ? 1 : first_ns - half_ns;
    uint64_t interval_ns = at_each_tick ? slot->tick_ns / TICK_PARTS : slot->period_ns;
    const struct itimerspec times = {timespec_of(interval_ns), timespec_of(value_ns)};
    return (int)sys4(SYS_timer_settime, slot->timer, 0, slot->spared ? &never : &times, NULL);
}

/* Has SLOT's timer send the signal of now. 0 or -errno: it has none any more. */
static int slot_follow_signal(struct timers *timers, struct timer_slot *slot)
{
    if (slot->signal == __atomic_load_n(&timers->signal, __ATOMIC_SEQ_CST))
        return 0;
    slot_end_timer(slot);
    return slot_create_timer(timers, slot, slot->writer.tid);
}

/* An ACTIVE slot whose state is WORD is the caller's, BUSY, until slot_leave. False: it is in other
 * hands. */
static bool slot_enter(struct timer_slot *slot, uint32_t word)
{
    return STATE_OF(word) == SLOT_ACTIVE &&
           slot_change(slot, word, WORD(GENERATION(word), SLOT_BUSY));
}

/* The slot that the caller has had in STATE is ACTIVE; or, where it was released meanwhile, FREE:
 * false then. */
static bool slot_leave(struct timer_slot *slot, enum slot_state state)
{
    uint32_t generation = GENERATION(__atomic_load_n(&slot->state, __ATOMIC_RELAXED));
    if (slot_change(slot, WORD(generation, state), WORD(generation, SLOT_ACTIVE)))
        return true;
    slot_end_timer(slot);
    slot_free(slot);
    return false;
}

static void slot_spare(struct timer_slot *slot, bool spare)
{
    if (slot->spared == spare)
        return;
    uint64_t cpu_ns = sys_clock_ns(TIMERS_CLOCK(slot->writer.tid));
    slot->spared = spare;
    if (spare) {
        slot->spared_cpu_ns = cpu_ns;
        __atomic_store_n(&slot->was_spared, true, __ATOMIC_RELAXED);
    } else {
        slot->base_cpu_ns += cpu_ns - slot->spared_cpu_ns;
    }
}

/* The thread may have set another stack since the slot was taken. It notes that before it looks for
 * its slot, and we make the slot ours before we look at the note. */
static bool has_small_stack(const struct timers *timers, pid_t tid)
{
    if (tid == (pid_t)sys0(SYS_gettid))
        return small_stack_is_own(&timers->small_stacks);
    return small_stacks_may_have(&timers->small_stacks, tid);
}

int timer_slot_arm(struct timers *timers, struct timer_slot *slot)
{
    uint32_t generation = GENERATION(__atomic_load_n(&slot->state, __ATOMIC_RELAXED));
    slot->base_cpu_ns = sys_clock_ns(TIMERS_CLOCK(slot->writer.tid));
    /* Whoever changes the signal sees that we are active, or we see the new signal. */
    if (!slot_leave(slot, SLOT_TAKEN) || !slot_enter(slot, WORD(generation, SLOT_ACTIVE)))
        return -ECANCELED;
    slot_follow_signal(timers, slot);
    slot_spare(slot, has_small_stack(timers, slot->writer.tid));
    /* Anywhere in the first period; within a tick the tick itself is as good as drawn by lot. */
    int result = slot_set_time(slot, slot->random % slot->period_ns + 1);
    slot_leave(slot, SLOT_BUSY);
    return result;
}

static void period_redraw(struct timer_slot *slot)
{
    if (slot->period_ns <= slot->tick_ns)
        return;
    slot->random = sampling_mix(slot->random);
    slot_set_time(slot, sampling_settled_period_ns(slot->period_ns, slot->random));
}

static void tell_name(struct timer_slot *slot, uint64_t time_ns)
{
    char name[TIMERS_NAME_BYTES] = "";
    if (sys2(SYS_prctl, PR_GET_NAME, name) == 0 &&
        __builtin_memcmp(name, slot->name, sizeof name) != 0 &&
        ring_writer_put_name(&slot->writer, name, time_ns))
        __builtin_memcpy(slot->name, name, sizeof name);
}

static void take_sample(struct timer_slot *slot, const void *context)
{
    const uint8_t *frame = (const uint8_t *)context - ARCH_SIGNAL_CONTEXT_AT;
    uint64_t registers[ARCH_PERF_REGISTER_COUNT];
    for (unsigned i = 0; i < ARCH_PERF_REGISTER_COUNT; i++)
        __builtin_memcpy(&registers[i], frame + arch_signal_register_at[i], sizeof registers[i]);
    const struct ring_writer_sample sample = {
        .time_ns = sys_clock_ns(CLOCK_MONOTONIC),
        .count_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID) - slot->base_cpu_ns,
        .registers = registers,
        .stack_pointer = registers[ARCH_PERF_INDEX_SP],
        .stack_bytes = slot->stack_bytes,
    };
    tell_name(slot, sample.time_ns);
    ring_writer_put_sample(&slot->writer, &sample);
    period_redraw(slot);
}

/* The slot that INFO is of, with its state word as it must be; NULL: of none. */
static struct timer_slot *slot_of(struct timers *timers, const siginfo_t *info, uint32_t *word)
{
    uint32_t value = (uint32_t)info->si_value.sival_int;
    struct timer_slot *slot = slot_at(timers, value & (TIMERS_SLOTS - 1));
    if (slot == NULL)
        return NULL;
    *word = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
    if ((GENERATION(*word) & GENERATION_MASK) != value >> INDEX_BITS)
        return NULL;
    return slot;
}

bool timers_on_signal(struct timers *timers, const siginfo_t *info, const void *context)
{
    uint32_t word;
    if (info->si_code != SI_TIMER)
        return false;
    struct timer_slot *slot = slot_of(timers, info, &word);
    /* One that comes late, of a timer that has been ended, is no concern of anybody's. */
    if (slot == NULL || !slot_enter(slot, word))
        return true;
    take_sample(slot, context);
    slot_leave(slot, SLOT_BUSY);
    return true;
}

/* The thread's slot, with its state word. */
static struct timer_slot *slot_of_thread(struct timers *timers, pid_t tid, uint32_t *word)
{
    uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        struct timer_slot *slot = slot_at(timers, i);
        *word = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        if (STATE_OF(*word) != SLOT_FREE && slot->writer.tid == tid)
            return slot;
    }
    return NULL;
}

void timers_ask(struct timers *timers, pid_t tid)
{
    for (unsigned i = 0; i < TIMERS_ASKED; i++)
        if (__atomic_load_n(&timers->asked[i], __ATOMIC_RELAXED) == tid)
            return;
    for (unsigned i = 0; i < TIMERS_ASKED; i++) {
        pid_t none = 0;
        if (__atomic_compare_exchange_n(&timers->asked[i], &none, tid, false, __ATOMIC_RELEASE,
                                        __ATOMIC_RELAXED))
            return;
    }
}

pid_t timers_take_asked(struct timers *timers)
{
    uint32_t word;
    for (unsigned i = 0; i < TIMERS_ASKED; i++) {
        if (__atomic_load_n(&timers->asked[i], __ATOMIC_RELAXED) == 0)
            continue;
        pid_t tid = __atomic_exchange_n(&timers->asked[i], 0, __ATOMIC_ACQUIRE);
        if (tid != 0 && slot_of_thread(timers, tid, &word) == NULL)
            return tid;
    }
    return 0;
}

void timers_leave(struct timers *timers, pid_t tid)
{
    uint32_t word;
    struct timer_slot *slot = slot_of_thread(timers, tid, &word);
    if (slot == NULL || !slot_enter(slot, word))
        return;
    slot_end_timer(slot); /* what was pending has been delivered when the call returns */
    ring_writer_put_end(&slot->writer, sys_clock_ns(CLOCK_MONOTONIC));
    slot_leave(slot, SLOT_BUSY);
}

/* The slot's thread may be in its handler, for some us or while others have the processor. */
static void slot_move(struct timers *timers, struct timer_slot *slot)
{
    for (unsigned i = 0; i < MOVE_TRIES; i++) {
        uint32_t word = __atomic_load_n(&slot->state, __ATOMIC_SEQ_CST);
        if (STATE_OF(word) < SLOT_ACTIVE)
            return;
        if (!slot_enter(slot, word)) {
            sys0(SYS_sched_yield);
            continue;
        }
        if (slot_follow_signal(timers, slot) == 0)
            slot_set_time(slot, slot->period_ns);
        slot_leave(slot, SLOT_BUSY);
        return;
    }
    sys1(SYS_timer_delete, slot->timer); /* better no samples than a signal to the app */
}

void timers_change_signal(struct timers *timers, int from)
{
    int signal = timer_signal_choose(timers->handler, from);
    if (signal != 0 && timer_signal_take(timers->handler, signal) != 0)
        signal = 0;
    if (!__atomic_compare_exchange_n(&timers->signal, &from, signal, false, __ATOMIC_SEQ_CST,
                                     __ATOMIC_SEQ_CST))
        return; /* another thread is at it */
    __atomic_store_n(&timers->has_no_signal, signal == 0, __ATOMIC_RELAXED);
    uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_SEQ_CST);
    for (uint32_t i = 0; i < used; i++)
        slot_move(timers, slot_at(timers, i));
}

void timers_give_up_signal(struct timers *timers, int signal)
{
    timers_change_signal(timers, signal);
    /* A signal that is ignored is taken off all queues. */
    kernel_sigaction_set(signal, KERNEL_SIGNAL_IGNORE, 0, 0);
    kernel_sigaction_set(signal, KERNEL_SIGNAL_DEFAULT, 0, 0);
}

static void slot_silence(const struct timer_slot *slot, bool silent)
{
    if (silent)
        sys4(SYS_timer_settime, slot->timer, 0, &never, NULL);
    else
        slot_set_time(slot, slot->period_ns);
}

void timers_hold(struct timers *timers, pid_t tid, bool hold)
{
    uint32_t word;
    struct timer_slot *slot = slot_of_thread(timers, tid, &word);
    if (slot == NULL || !slot_enter(slot, word))
        return;
    slot_silence(slot, hold);
    slot_leave(slot, SLOT_BUSY);
}

void timers_spare(struct timers *timers, pid_t tid, bool spare)
{
    uint32_t word;
    struct timer_slot *slot = NULL;
    for (unsigned i = 0; i < MOVE_TRIES; i++) {
        slot = slot_of_thread(timers, tid, &word);
        if (slot == NULL || STATE_OF(word) < SLOT_ACTIVE)
            return;
        if (!slot_enter(slot, word)) {
            sys0(SYS_sched_yield);
            continue;
        }
        slot_spare(slot, spare);
        slot_set_time(slot, slot->period_ns);
        slot_leave(slot, SLOT_BUSY);
        return;
    }
    if (spare)
        sys1(SYS_timer_delete, slot->timer); /* better no samples than a signal without room */
}

void timers_silence(struct timers *timers, bool silent)
{
    uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        const struct timer_slot *slot = slot_at(timers, i);
        if (STATE_OF(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE)) >= SLOT_ACTIVE)
            slot_silence(slot, silent);
    }
}

uint32_t timer_slot_life(const struct timer_slot *slot)
{
    return GENERATION(__atomic_load_n(&slot->state, __ATOMIC_RELAXED));
}

bool timer_slot_was_spared(const struct timer_slot *slot)
{
    return __atomic_load_n(&slot->was_spared, __ATOMIC_RELAXED);
}

/* Is that the state of a slot in LIFE that nobody has released? */
static bool word_is_alive(uint32_t word, uint32_t life)
{
    return GENERATION(word) == life && STATE_OF(word) != SLOT_FREE &&
           STATE_OF(word) != SLOT_CLOSING;
}

bool timer_slot_is_alive(const struct timer_slot *slot, uint32_t life)
{
    return word_is_alive(__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE), life);
}

void timer_slot_release(struct timer_slot *slot, uint32_t life)
{
    uint32_t word = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
    while (word_is_alive(word, life)) {
        bool is_used = STATE_OF(word) != SLOT_ACTIVE;
        uint32_t next = is_used ? WORD(life, SLOT_CLOSING) : WORD(life + 1, SLOT_FREE);
        if (slot_change(slot, word, next))
            return;
        word = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
    }
}

void timers_forget(struct timers *timers)
{
    for (uint32_t i = 0; i < timers->used; i++)
        *slot_at(timers, i) = (struct timer_slot){0};
    for (uint32_t i = 0; i < TIMERS_ASKED; i++)
        if (timers->asked[i] != 0)
            timers->asked[i] = 0;
    if (timers->used != 0)
        timers->used = 0;
    small_stacks_forget(&timers->small_stacks);
}

void timers_close(struct timers *timers)
{
    uint32_t used = __atomic_load_n(&timers->used, __ATOMIC_ACQUIRE);
    for (uint32_t i = 0; i < used; i++) {
        struct timer_slot *slot = slot_at(timers, i);
        timer_slot_release(slot, timer_slot_life(slot));
        uint32_t word = __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE);
        if (STATE_OF(word) != SLOT_FREE ||
            !slot_change(slot, word, WORD(GENERATION(word), SLOT_TAKEN)))
            continue;
        slot_end_timer(slot);
        if (slot->mapping != NULL)
            sys_munmap(slot->mapping, slot->mapping_bytes);
        slot->mapping = NULL;
        slot_free(slot);
    }
}
