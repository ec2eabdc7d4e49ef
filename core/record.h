/*
 * The records in a ring, as our events make them, decoded. Layouts: perf_event_open(2), "MMAP
 * layout".
 *
 * A record is decoded where it lies (in the ring, or in the bounce buffer of one that wraps), so
 * the pointers in a struct record are good until the ring is advanced. Every length in it was
 * checked against the record's own size.
 *
 * Thread safety: pure functions. Run in the helper.
 */
#ifndef SELFSAMPLE_CORE_RECORD_H
#define SELFSAMPLE_CORE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arch.h"

/* What every event asks for; needs linux/perf_event.h where it is used. */
#define RECORD_SAMPLE_TYPE                                                                         \
    (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_READ |                      \
     PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER)

#define RECORD_USER_REGISTERS ARCH_PERF_REGISTERS

/* header, ip, pid+tid, time, count, register abi, registers, stack size, stack dyn_size */
#define RECORD_SAMPLE_FIXED_BYTES (8u + 8 + 8 + 8 + 8 + 8 + 8 * ARCH_PERF_REGISTER_COUNT + 8 + 8)

/* No record of ours is longer: the size field of the header has 16 bits. */
#define RECORD_BYTES_MAX 65536u

enum record_kind {
    RECORD_SAMPLE,
    RECORD_NAME,  /* a thread got a name */
    RECORD_EXEC,  /* the process has become another program; later records belong to that one */
    RECORD_MAP,   /* executable memory was mapped */
    RECORD_BIRTH, /* a thread of this process, or a child process, was made */
    RECORD_DEATH, /* a thread ended; its last record */
    RECORD_LOST,  /* the ring was full for a while */
    RECORD_THROTTLE,
    RECORD_OTHER,
};

struct record {
    enum record_kind kind;
    uint32_t pid, tid;
    uint64_t time_ns; /* CLOCK_MONOTONIC */
    union {
        struct {
            uint64_t ip;
            uint64_t count_ns;          /* the thread's CPU time since its event was opened */
            const uint64_t *kernel_ips; /* leaf first */
            size_t kernel_ip_count;
            const uint64_t
                *registers;          /* in the order of ARCH_PERF_REGISTERS; NULL: no user state */
            const uint8_t *stack;    /* from the stack pointer upwards */
            size_t stack_bytes;      /* that are real */
            size_t stack_copy_bytes; /* that were asked for */
        } sample;
        const char *name; /* NUL-terminated */
        struct {
            uint64_t start, bytes, file_offset, inode;
            uint32_t device_major, device_minor;
            const char *path; /* NUL-terminated */
        } map;
        struct {
            uint32_t parent_pid, parent_tid;
        } birth;
        uint64_t lost;
    };
};

/*
 * Decodes the record of BYTES bytes at DATA (header included). HAS_CALLCHAIN tells how its event
 * was opened. Returns 0, or -EBADMSG where the lengths contradict each other.
 */
int record_decode(struct record *record, const void *data, size_t bytes, bool has_callchain);

/* The time of the record, ns, without decoding the rest; 0 where it is too short to have one. */
uint64_t record_time_ns(const void *data, size_t bytes);

#endif
