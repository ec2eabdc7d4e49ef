/*
 * The writing side of a ring in ordinary memory: records of the kernel's form (record.h), put there
 * by the thread that they tell of, where no perf event does it.
 *
 * Contract: one writer, the thread, in its signal handler or at its end, never in two of these at
 * once; one reader, the helper, by ring.h. A record becomes visible whole. What finds no room is
 * counted, and told by a record before the next one that does.
 *
 * Runs in the app's threads, in signal handlers too: no libc, no allocation, no lock.
 */
#ifndef SELFSAMPLE_CORE_RING_WRITER_H
#define SELFSAMPLE_CORE_RING_WRITER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* In front of the ring's data. */
#define RING_WRITER_CONTROL_BYTES 4096u

struct ring_writer {
    void *control; /* struct perf_event_mmap_page; NULL: no ring */
    uint8_t *data;
    uint64_t size; /* a power of two */
    uint64_t lost; /* samples, not told yet */
    pid_t pid, tid;
    bool has_callchain; /* readers expect a chain of kernel frames: an empty one is written */
};

/* What a sample holds beside the stack. */
struct ring_writer_sample {
    uint64_t time_ns;  /* CLOCK_MONOTONIC */
    uint64_t count_ns; /* the thread's CPU time since it is sampled */
    const uint64_t *registers;
    uint64_t stack_pointer;
    uint32_t stack_bytes; /* copied from there upwards, at most */
};

/* A writer over a ring of MAPPING_BYTES, control page and data, at first zeroed: empties it, so
 * nobody may be reading it. */
struct ring_writer ring_writer_over(void *mapping, size_t mapping_bytes, pid_t pid, pid_t tid);

/* The longest stack copy that fits a record. */
uint32_t ring_writer_stack_bytes_max(void);

/*
 * Puts a sample. The stack is copied by the kernel (process_vm_readv, or a read of the memory's
 * file), which stops where nothing is mapped: so it never reads beyond a stack's end into a hole,
 * and cannot fault. False where the ring has no room.
 */
bool ring_writer_put_sample(struct ring_writer *writer, const struct ring_writer_sample *sample);

/* The thread's name (16 bytes, ended by a NUL), from TIME_NS on. */
bool ring_writer_put_name(struct ring_writer *writer, const char *name, uint64_t time_ns);

/* The thread ends. */
bool ring_writer_put_end(struct ring_writer *writer, uint64_t time_ns);

#endif
