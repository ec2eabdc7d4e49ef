/* Rings in ordinary memory for a collector's threads, filled with records as the kernel lays them
 * out. */
#ifndef SELFSAMPLE_TESTS_UNIT_COLLECTOR_RINGS_H
#define SELFSAMPLE_TESTS_UNIT_COLLECTOR_RINGS_H

#include <linux/perf_event.h>
#include <sys/mman.h>

#include "collector_fixture.h"

#define RING_BYTES 16384u

static inline void prepare(bool kernel_frames)
{
    traits = (struct event_traits){.kernel_frames = kernel_frames};
    collector_prepare();
}

/* A thread whose ring is ours to fill. It comes through the mailbox, with a plain period. */
static inline struct thread *thread_with_ring(pid_t tid, const char *name)
{
    void *mapping = mmap(NULL, EVENT_PAGE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    if (mapping == MAP_FAILED || slot == NULL)
        return NULL;
    slot->birth = (struct birth){
        .tid = tid,
        .event = {.fd = -1, .mapping = mapping, .mapping_bytes = EVENT_PAGE_BYTES + RING_BYTES},
        .period_ns = PERIOD_NS,
        .plain = true,
        .stack_bytes = 1024};
    snprintf(slot->birth.name, sizeof slot->birth.name, "%s", name);
    mailbox_post(&mailbox, slot);
    collector_take_births(&collector, &mailbox);
    return threads_find(&collector.threads, tid);
}

static inline void put(struct thread *thread, const uint64_t *words, size_t count)
{
    struct perf_event_mmap_page *control = thread->event.mapping;
    uint8_t *data = (uint8_t *)thread->event.mapping + EVENT_PAGE_BYTES;
    for (size_t i = 0; i < count; i++, control->data_head += 8)
        memcpy(data + control->data_head % RING_BYTES, &words[i], 8);
}

static inline uint64_t header(uint32_t type, uint16_t misc, size_t words)
{
    return type | (uint64_t)misc << 32 | (uint64_t)words << 51;
}

static inline uint64_t pair(uint32_t low, uint32_t high)
{
    return low | (uint64_t)high << 32;
}

/* A sample without user state: its stack is the thread's name and [exec]. */
static inline void put_sample(struct thread *thread, uint64_t time_ns, uint64_t count_ns)
{
    const size_t words = traits.kernel_frames ? 8 : 7;
    const uint64_t start[] = {header(PERF_RECORD_SAMPLE, 0, words), 0x1000,
                              pair((uint32_t)getpid(), (uint32_t)thread->tid), time_ns, count_ns};
    const uint64_t end[] = {0, PERF_SAMPLE_REGS_ABI_NONE, 0}; /* call chain, registers, stack */
    put(thread, start, 5);
    put(thread, end + (8 - words), words - 5);
}

static inline void put_name(struct thread *thread, uint64_t time_ns, uint16_t misc,
                            const char *name)
{
    uint64_t words[6] = {header(PERF_RECORD_COMM, misc, 6),
                         pair((uint32_t)getpid(), (uint32_t)thread->tid),
                         0,
                         0,
                         pair((uint32_t)getpid(), (uint32_t)thread->tid),
                         time_ns};
    memcpy(&words[2], name, strlen(name));
    put(thread, words, 6);
}

/* A birth or a death of TID in process PID. */
static inline void put_task(struct thread *thread, uint32_t type, uint64_t time_ns, pid_t pid,
                            pid_t tid)
{
    const uint64_t words[] = {header(type, 0, 6),
                              pair((uint32_t)pid, (uint32_t)getpid()),
                              pair((uint32_t)tid, (uint32_t)thread->tid),
                              time_ns,
                              pair((uint32_t)getpid(), (uint32_t)thread->tid),
                              time_ns};
    put(thread, words, 6);
}

static inline void put_map(struct thread *thread, uint64_t time_ns, pid_t pid, uint64_t start)
{
    uint64_t words[12] = {header(PERF_RECORD_MMAP2, 0, 12),
                          pair((uint32_t)pid, (uint32_t)thread->tid),
                          start,
                          0x1000,
                          0,
                          0,
                          5,
                          0,
                          0,
                          0,
                          0,
                          time_ns};
    memcpy(&words[9], "/mapped", 7);
    put(thread, words, 12);
}

static inline void put_lost(struct thread *thread, uint64_t time_ns, uint64_t count)
{
    const uint64_t words[] = {header(PERF_RECORD_LOST, 0, 5), 1, count, 0, time_ns};
    put(thread, words, 5);
}

/* The weight of the root NAME and all below it. */
static inline uint64_t weight_of(const char *name)
{
    const struct profile *profile = &collector.profile;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile_node_count(profile); i++) {
        uint32_t root = i;
        while (profile_node_at(profile, root)->parent != PROFILE_NONE)
            root = profile_node_at(profile, root)->parent;
        const struct profile_frame *frame =
            profile_frame_at(profile, profile_node_at(profile, root)->frame);
        if (frame->module == FRAME_OF_THREAD &&
            strcmp(stack_text(&collector.stacks, frame->address), name) == 0)
            sum += profile_node_at(profile, i)->weight_ns;
    }
    return sum;
}

static inline void end_all(void)
{
    for (uint32_t i = 0; i < collector.threads.used; i++)
        event_close(&threads_at(&collector.threads, i)->event);
    modules_close(&collector.modules);
}

#endif
