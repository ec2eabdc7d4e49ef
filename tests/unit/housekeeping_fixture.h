/*
 * A helper's turns over threads of this very process, for the tests of housekeeping.c: workers to
 * be found, settled and retired, and what they weigh.
 */
#ifndef SELFSAMPLE_TESTS_HOUSEKEEPING_FIXTURE_H
#define SELFSAMPLE_TESTS_HOUSEKEEPING_FIXTURE_H

#include "housekeeping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "collector_fixture.h"
#include "thread_clock.h"

#define SECOND_NS 1000000000ull

static struct housekeeping house;
static struct first_clock first_clock;

static inline void prepare(void)
{
    if (event_probe(&traits, true) != 0)
        SKIP("the kernel refuses perf_event_open");
    collector_prepare();
    housekeeping_init(&house, &collector, &first_clock);
    house.own_tid = 0; /* the part of the helper is played by a thread to be found */
}

static inline void end_all(void)
{
    for (uint32_t i = 0; i < collector.threads.used; i++)
        event_close(&threads_at(&collector.threads, i)->event);
    modules_close(&collector.modules);
}

/* A turn of the helper. */
static inline void turn(void)
{
    collector_drain(&collector, UINT64_MAX);
    housekeeping_do(&house, &mailbox);
}

static inline uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* A thread that works when it is told to, for 50 ms a time. */
struct worker {
    pthread_t thread;
    pid_t tid;
    pthread_barrier_t turn;
    bool ends;
};

static inline void *work(void *argument)
{
    struct worker *worker = argument;
    prctl(PR_SET_NAME, "worker");
    worker->tid = (pid_t)syscall(SYS_gettid);
    for (;;) {
        pthread_barrier_wait(&worker->turn);
        pthread_barrier_wait(&worker->turn);
        if (worker->ends)
            return NULL;
        for (uint64_t end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 50000000;
             clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns;)
            for (unsigned i = 0; i < 20000; i++)
                __asm__ volatile("");
    }
}

/* Returns once the worker stands at its first barrier, or has done what it was told. */
static inline void worker_wait(struct worker *worker)
{
    pthread_barrier_wait(&worker->turn);
}

static inline void worker_start(struct worker *worker)
{
    *worker = (struct worker){.tid = 0};
    pthread_barrier_init(&worker->turn, NULL, 2);
    REQUIRE(pthread_create(&worker->thread, NULL, work, worker) == 0);
    worker_wait(worker);
}

static inline void worker_go(struct worker *worker)
{
    pthread_barrier_wait(&worker->turn);
}

/* The kernel's end of a thread comes a moment after the C library's join. */
static inline void worker_end(struct worker *worker)
{
    worker->ends = true;
    worker_go(worker);
    pthread_join(worker->thread, NULL);
    for (unsigned i = 0; i < 10000 && syscall(SYS_tgkill, getpid(), worker->tid, 0) == 0; i++)
        usleep(1000);
}

/* Waits until a worker that has done what it was told has come to rest, too. */
static inline void worker_rest(const struct worker *worker)
{
    char path[64], state = 'R';
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)worker->tid);
    for (unsigned i = 0; i < 10000 && state != 'S'; i++) {
        usleep(1000);
        FILE *file = fopen(path, "re");
        REQUIRE(file != NULL && fscanf(file, "%*d (%*[^)]) %c", &state) == 1);
        fclose(file);
    }
}

static inline void post(struct birth birth)
{
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    slot->birth = birth;
    mailbox_post(&mailbox, slot);
    collector_take_births(&collector, &mailbox);
}

static inline uint64_t weight_of(const char *name)
{
    const struct profile *profile = &collector.profile;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile_node_count(profile); i++) {
        uint32_t root = i;
        while (profile_node_at(profile, root)->parent != PROFILE_NONE)
            root = profile_node_at(profile, root)->parent;
        uint64_t text = profile_frame_at(profile, profile_node_at(profile, root)->frame)->address;
        if (strcmp(stack_text(&collector.stacks, text), name) == 0)
            sum += profile_node_at(profile, i)->weight_ns;
    }
    return sum;
}

/* One that has been found and settled. */
static inline struct thread *worker_settled(struct worker *worker)
{
    worker_start(worker);
    usleep(10000);
    turn();
    usleep(5000);
    turn();
    struct thread *thread = threads_find(&collector.threads, worker->tid);
    REQUIRE(thread != NULL && thread->settled);
    return thread;
}

#endif
