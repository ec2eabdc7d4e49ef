/* timers: this process's own threads are sampled by them; slots are given back and taken again. */
#include "timers.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "event.h"
#include "record.h"
#include "ring.h"

#define PERIOD_NS 1000000u

static struct timers timers;
static uint64_t bounce[RECORD_BYTES_MAX / 8];
static volatile unsigned foreign, errno_spoilt;

static void on_signal(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    int before = errno;
    foreign += !timers_on_signal(&timers, info, context);
    errno_spoilt += errno != before;
}

static pid_t own_tid(void)
{
    return gettid();
}

static uint64_t cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void burn_ms(unsigned ms)
{
    for (uint64_t end_ns = cpu_ns() + ms * 1000000ull; cpu_ns() < end_ns;)
        for (unsigned i = 0; i < 20000; i++)
            __asm__ volatile("");
}

static struct timer_slot *open_own(uint64_t period_ns)
{
    int error = 0;
    timers.handler = on_signal;
    struct timer_slot *slot = timers_open(&timers, own_tid(), period_ns, 12345, &error);
    CHECK_U64((uint64_t)-error, 0);
    return slot;
}

/* What came of SLOT's thread. */
struct seen {
    unsigned samples, names, ends, others;
    uint64_t last_count_ns, last_time_ns;
};

static struct seen drain(const struct timer_slot *slot)
{
    struct seen seen = {0};
    struct ring ring = ring_over(slot->mapping, slot->mapping_bytes);
    struct record record;
    size_t bytes;
    for (const void *data; (data = ring_peek(&ring, &bytes, bounce)) != NULL;) {
        CHECK_U64((uint64_t)record_decode(&record, data, bytes, false), 0);
        CHECK(record.time_ns >= seen.last_time_ns);
        seen.last_time_ns = record.time_ns;
        seen.samples += record.kind == RECORD_SAMPLE;
        seen.names += record.kind == RECORD_NAME;
        seen.ends += record.kind == RECORD_DEATH;
        seen.others += record.kind > RECORD_NAME && record.kind != RECORD_DEATH;
        if (record.kind == RECORD_SAMPLE) {
            CHECK(record.sample.count_ns > seen.last_count_ns);
            CHECK(record.sample.stack_bytes > 0 && record.sample.registers != NULL);
            seen.last_count_ns = record.sample.count_ns;
        }
        ring_advance(&ring, bytes);
    }
    return seen;
}

TEST(a_thread_that_computes_is_sampled_at_ticks)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    CHECK(slot->period_ns >= timers_tick_ns());
    CHECK_U64((uint64_t)-timer_slot_arm(&timers, slot), 0);
    unsigned samples = 0;
    struct seen seen = {0};
    for (unsigned i = 0; i < 20; i++) {
        burn_ms(20);
        seen = drain(slot);
        samples += seen.samples;
        CHECK_U64(seen.others, 0);
    }
    uint64_t ticks = 400000000u / slot->period_ns;
    CHECK(samples > ticks / 2 && samples < ticks * 2);
    CHECK(seen.last_count_ns > 300000000u);
    CHECK_U64(foreign, 0);
    CHECK_U64(errno_spoilt, 0);
    timers_leave(&timers, own_tid());
    seen = drain(slot);
    CHECK_U64(seen.ends, 1);
    timer_slot_release(slot, timer_slot_life(slot));
}

TEST(longer_periods_are_kept_on_the_average)
{
    struct timer_slot *slot = open_own(20000000u);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    burn_ms(1000);
    timers_leave(&timers, own_tid());
    struct seen seen = drain(slot);
    CHECK(seen.samples > 35 && seen.samples < 65);
    timer_slot_release(slot, timer_slot_life(slot));
}

TEST(a_slot_and_its_ring_are_taken_again)
{
    struct timer_slot *first = open_own(PERIOD_NS);
    REQUIRE(first != NULL);
    void *mapping = first->mapping;
    timer_slot_arm(&timers, first);
    burn_ms(30);
    timer_slot_release(first, timer_slot_life(first));
    burn_ms(30); /* its timer runs on, and its signals are nobody's */
    struct timer_slot *again = open_own(PERIOD_NS);
    REQUIRE(again == first && again->mapping == mapping);
    CHECK_U64(drain(again).samples, 0);
    timer_slot_arm(&timers, again);
    burn_ms(60);
    CHECK(drain(again).samples > 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(again, timer_slot_life(again));
}

/* A session ends while a thread is at its birth: the slot is the thread's until it is done. */
TEST(a_slot_that_is_released_before_its_timer_begins)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    void *mapping = slot->mapping;
    uint32_t life = timer_slot_life(slot);
    CHECK(timer_slot_is_alive(slot, life));
    timer_slot_release(slot, life);
    CHECK(!timer_slot_is_alive(slot, life));
    timers_close(&timers);
    CHECK(slot->mapping == mapping);
    CHECK_I64(timer_slot_arm(&timers, slot), -ECANCELED);
    CHECK(!slot->has_timer);
    timers_leave(&timers, own_tid());
    CHECK_U64(drain(slot).ends, 0);
    struct timer_slot *again = open_own(PERIOD_NS);
    REQUIRE(again == slot);
    timer_slot_release(again, life); /* by who still thinks of its last life */
    CHECK_I64(timer_slot_arm(&timers, again), 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(again, timer_slot_life(again));
    timers_close(&timers);
    CHECK(again->mapping == NULL);
}

TEST(silence_and_its_end)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    timers_silence(&timers, true);
    drain(slot);
    burn_ms(40);
    CHECK_U64(drain(slot).samples, 0);
    timers_silence(&timers, false);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
}

TEST(one_that_is_held)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    timers_hold(&timers, own_tid() + 1, true);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    timers_hold(&timers, own_tid(), true);
    drain(slot);
    burn_ms(40);
    CHECK_U64(drain(slot).samples, 0);
    timers_hold(&timers, own_tid(), false);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
}

static void *other_thread(void *tid)
{
    pthread_setname_np(pthread_self(), "other");
    __atomic_store_n((pid_t *)tid, own_tid(), __ATOMIC_RELEASE);
    while (__atomic_load_n((pid_t *)tid, __ATOMIC_ACQUIRE) != 0)
        burn_ms(1);
    return NULL;
}

/* Until THREAD has used so much CPU time, or ten seconds have gone by. */
static void others_burn_wait(pthread_t thread, unsigned ms)
{
    clockid_t clock;
    struct timespec used = {0, 0};
    REQUIRE(pthread_getcpuclockid(thread, &clock) == 0);
    for (unsigned i = 0; i < 1000 && used.tv_sec * 1000 + used.tv_nsec / 1000000 < ms; i++) {
        usleep(10000);
        clock_gettime(clock, &used);
    }
}

TEST(another_thread_can_be_given_a_timer)
{
    pthread_t thread;
    static pid_t tid;
    int error = 0;
    timers.handler = on_signal;
    REQUIRE(pthread_create(&thread, NULL, other_thread, &tid) == 0);
    while (__atomic_load_n(&tid, __ATOMIC_ACQUIRE) == 0)
        usleep(1000);
    struct timer_slot *slot = timers_open(&timers, tid, PERIOD_NS, 1, &error);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    others_burn_wait(thread, 200);
    __atomic_store_n(&tid, 0, __ATOMIC_RELEASE);
    pthread_join(thread, NULL);
    struct seen seen = drain(slot);
    CHECK(seen.samples > 0);
    CHECK_U64(seen.names, 1);
    timer_slot_release(slot, timer_slot_life(slot));
}

TEST(signals_from_elsewhere_are_not_ours)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    foreign = 0;
    raise(timers.signal);
    sigqueue(getpid(), timers.signal, (union sigval){.sival_int = 0});
    CHECK_U64(foreign, 2);
    foreign = 0;
    timer_slot_arm(&timers, slot);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
}

TEST(a_signal_that_is_used_or_blocked_is_not_chosen)
{
    static struct timers mine;
    mine.handler = on_signal;
    sigset_t set, before;
    sigemptyset(&set);
    sigaddset(&set, timers.signal - 1);
    struct sigaction used = {.sa_handler = SIG_IGN}, old;
    sigaction(timers.signal, &used, &old);
    pthread_sigmask(SIG_BLOCK, &set, &before);
    CHECK_U64((uint64_t)-timers_prepare(&mine), 0);
    CHECK(mine.signal != timers.signal && mine.signal != timers.signal - 1 && mine.signal >= 34);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    sigaction(timers.signal, &old, NULL);
    signal(mine.signal, SIG_DFL);
}

static void altstack_set(void *memory, size_t bytes)
{
    const stack_t stack = {
        .ss_sp = memory, .ss_size = bytes, .ss_flags = bytes == 0 ? SS_DISABLE : 0};
    CHECK_I64(sigaltstack(&stack, NULL), 0);
}

/* As the hook on sigaltstack does it. */
static void spare(pid_t tid, bool spared)
{
    small_stacks_note(&timers.small_stacks, tid, spared);
    timers_spare(&timers, tid, spared);
}

TEST(a_thread_without_room_is_spared_and_its_time_is_in_no_sample)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    burn_ms(60);
    CHECK(!timer_slot_was_spared(slot));
    spare(own_tid(), true);
    drain(slot);
    burn_ms(60);
    timers_hold(&timers, own_tid(), false); /* an exec that failed, another signal: no matter */
    timers_silence(&timers, false);
    timers_change_signal(&timers, timers.signal);
    burn_ms(60);
    CHECK_U64(drain(slot).samples, 0);
    CHECK(timer_slot_was_spared(slot));
    spare(own_tid(), false);
    burn_ms(60);
    struct seen seen = drain(slot);
    CHECK(seen.samples > 0 && seen.last_count_ns < 170000000u);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
}

/* It is asked for where a timer begins, however it was set. */
TEST(a_thread_that_has_no_room_at_first_is_spared)
{
    static char memory[3072];
    timers.small_stacks.frame_bytes = sizeof memory;
    altstack_set(memory, sizeof memory);
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    CHECK_I64(timer_slot_arm(&timers, slot), 0);
    burn_ms(60);
    CHECK_U64(drain(slot).samples, 0);
    CHECK(timer_slot_was_spared(slot));
    altstack_set(NULL, 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
    timers.small_stacks.frame_bytes = 0;
}

/* How much of an alternate stack a sample takes beyond the kernel's frame: no more than is asked.
 */
TEST(there_is_room_for_the_handler)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    SKIP("a sanitizer's frames are larger");
#endif
    static uint8_t memory[65536];
    memset(memory, 0xa5, sizeof memory);
    altstack_set(memory, sizeof memory);
    timers.small_stacks.frame_bytes = getauxval(AT_MINSIGSTKSZ);
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
    altstack_set(NULL, 0);
    size_t left = 0;
    while (left < sizeof memory && memory[left] == 0xa5)
        left++;
    const stack_t used = {.ss_size = sizeof memory - left};
    CHECK(!small_stack_is(&timers.small_stacks, &(stack_t){.ss_size = sizeof memory}));
    printf("# %zu bytes of stack were used\n", used.ss_size);
    CHECK(small_stack_is(&timers.small_stacks, &used));
}

/* The slots are memory that is not there from the start. */
TEST(without_memory_for_the_slots_there_is_no_timer)
{
    pid_t pid = fork();
    if (pid == 0) {
        static struct timers mine;
        mine.handler = on_signal;
        const siginfo_t late = {.si_code = SI_TIMER};
        bool fine = timers_on_signal(&mine, &late, NULL);
        struct rlimit limit = {4096, 4096};
        setrlimit(RLIMIT_AS, &limit);
        int error = 0;
        fine &= timers_open(&mine, own_tid(), PERIOD_NS, 1, &error) == NULL && error == -ENOMEM;
        timers_leave(&mine, own_tid());
        timers_forget(&mine);
        timers_close(&mine);
        _exit(fine ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(where_every_signal_is_used_there_is_no_timer)
{
    pid_t pid = fork();
    if (pid == 0) {
        static struct timers mine;
        mine.handler = on_signal;
        for (int i = 1; i <= 64; i++)
            signal(i, SIG_IGN);
        int error = 0;
        bool none = timers_open(&mine, own_tid(), PERIOD_NS, 1, &error) == NULL;
        _exit(none && error == -EBUSY ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_signal_that_the_app_wants_is_given_up)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    int before = timers.signal;
    burn_ms(30);
    timers_give_up_signal(&timers, timers.signal);
    struct sigaction action;
    sigaction(before, NULL, &action);
    CHECK(timers.signal != before && timers.signal >= 34);
    CHECK(action.sa_handler == SIG_DFL && action.sa_flags == 0);
    drain(slot);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
}

/* Sets HANDLER for our signal as a runtime does that goes round libc. */
static void take_raw(int signal, void (*handler)(int, siginfo_t *, void *))
{
    CHECK_I64(kernel_sigaction_set(signal, handler, SA_RESTART, 0), 0);
}

static volatile unsigned taken_seen;

static void on_taken(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)info, (void)context;
    taken_seen++;
}

TEST(a_signal_that_the_app_takes_by_a_raw_call_is_left_at_the_next_birth)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    int before = timers.signal;
    take_raw(before, on_taken);
    CHECK_I64(timers_prepare(&timers), 0);
    CHECK(timers.signal != before && timers.signal >= 34);
    taken_seen = 0;
    drain(slot);
    burn_ms(60);
    CHECK(drain(slot).samples > 0);
    CHECK_U64(taken_seen, 0);
    timers_leave(&timers, own_tid());
    timer_slot_release(slot, timer_slot_life(slot));
    signal(before, SIG_DFL);
}

TEST(where_all_other_signals_are_used_the_timers_end)
{
    pid_t pid = fork();
    if (pid == 0) {
        timers_forget(&timers);
        struct timer_slot *slot = open_own(PERIOD_NS);
        timer_slot_arm(&timers, slot);
        for (int i = 1; i <= 64; i++)
            if (i != timers.signal)
                signal(i, SIG_IGN);
        timers_give_up_signal(&timers, timers.signal);
        drain(slot);
        burn_ms(60);
        int error = 0;
        bool none = timers_open(&timers, own_tid(), PERIOD_NS, 1, &error) == NULL;
        _exit(none && timers.signal == 0 && drain(slot).samples == 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

TEST(a_forked_child_begins_anew)
{
    struct timer_slot *slot = open_own(PERIOD_NS);
    REQUIRE(slot != NULL);
    timer_slot_arm(&timers, slot);
    pid_t pid = fork();
    if (pid == 0) {
        timers_forget(&timers);
        struct timer_slot *own = open_own(PERIOD_NS);
        timer_slot_arm(&timers, own);
        burn_ms(60);
        _exit(drain(own).samples > 0 ? 0 : 1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    burn_ms(40);
    CHECK(drain(slot).samples > 0);
    timers_close(&timers);
    CHECK(slot->mapping == NULL && !slot->has_timer);
    burn_ms(20);
}
