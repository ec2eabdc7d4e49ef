/*
 * The sampling event of one thread: a task clock whose every period the kernel answers with a
 * record of user registers, a copy of the user stack and, where allowed, the kernel's call chain.
 *
 * One event has one ring. The mapping keeps the event alive, so its file descriptor may be closed
 * at once; ending the mapping ends the event. Sources: perf_event_open(2),
 * include/uapi/linux/perf_event.h.
 *
 * Thread safety: no state but the arguments. May run in an app's thread (no allocation, no libc)
 * and in the helper.
 */
#ifndef SELFSAMPLE_CORE_EVENT_H
#define SELFSAMPLE_CORE_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* What all events of a process have in common, found out once by event_probe. */
struct event_traits {
    bool by_timer;      /* perf events are not to be had, or not wanted: timers do it (timers.h) */
    int perf_refusal;   /* -errno of that refusal, 0 where it was not asked for */
    bool kernel_frames; /* the kernel's part of the stack is recorded */
    int kernel_refusal; /* errno of the refusal where it is not, 0 where it was not asked for */
};

/* What may differ from event to event. */
struct event_shape {
    uint64_t period_ns;   /* of the thread's CPU time; the kernel takes no less than 10 us */
    uint32_t stack_bytes; /* copied per sample; multiple of 8, at most EVENT_STACK_BYTES_MAX */
    size_t ring_bytes;    /* of samples: a power of two; less than a page becomes one */
    bool disabled;        /* it counts once it is enabled, not from its opening on */
};

/*
 * A mapped event: what makes records of a thread, and the ring they go to. fd is -1 where the owner
 * does not keep it.
 */
struct event {
    struct timer_slot *timer; /* NULL: the kernel; else what there is instead, see engine.h */
    int fd;
    uint64_t id;          /* the kernel's number of the event, see event_id; the timer's life */
    void *mapping;        /* control page, then the ring, a power of two and no smaller */
    size_t mapping_bytes; /* of both */
};

#define EVENT_STACK_BYTES_MAX 65528u /* the kernel has 16 bits for it, and wants eights */
#define EVENT_PERIOD_MIN_NS   10000u /* the kernel's own floor for clock events */
#define EVENT_PAGE_BYTES      4096u  /* the least that a control page takes */

/*
 * Finds out what the kernel grants this process, by opening an event on the calling thread and
 * closing it again. WANT_KERNEL asks for kernel frames too. Returns 0, or -errno of the last
 * refusal: no event can be had at all (EACCES, EPERM: not permitted; ENOSYS: no perf events;
 * EINVAL: an older kernel).
 */
int event_probe(struct event_traits *traits, bool want_kernel);

/*
 * Opens an event on thread TID (0: the calling one) and maps its ring. A caller that has given up
 * the right to kernel frames since the probe gets records of the same form without any. Returns 0
 * or -errno: ESRCH no such thread, EPERM or EACCES not permitted (EPERM also: no more locked
 * memory), EMFILE no descriptor free.
 */
int event_open(struct event *event, const struct event_traits *traits,
               const struct event_shape *shape, pid_t tid);

/* The two halves of it, for who has to note the descriptor before it takes the time that mapping
 * takes. Where the second one fails the event is closed. */
int event_open_unmapped(struct event *event, const struct event_traits *traits,
                        const struct event_shape *shape, pid_t tid);
int event_map(struct event *event, const struct event_shape *shape);

/* What event_open maps for a ring of that size. */
size_t event_mapping_bytes(size_t ring_bytes);

/*
 * Starts the count of a disabled event, at 0, and the first period. For the calling thread's own
 * event: one of a running thread elsewhere was seen to count up to 100 ms too much after this
 * (Linux 6.18). Needs the descriptor. Returns 0 or -errno.
 */
int event_enable(const struct event *event);

/* The number by which the kernel tells this event from others; 0 where it does not say. */
uint64_t event_id(int fd);

/* Closes FD if it is the descriptor of event ID, in a table that others use as well: they may have
 * closed it unseen and have another file under its number. */
void event_close_shared_fd(int fd, uint64_t id);

/* Ends the event: unmaps its ring and closes the descriptor if it is still open. */
void event_close(struct event *event);

/* Starts a new period of PERIOD_NS from now on. Needs the descriptor. Returns 0 or -errno. */
int event_set_period(const struct event *event, uint64_t period_ns);

/* CPU time, ns, that the thread has used since the event was enabled; also after the thread's end.
 * Needs the descriptor. Returns 0 or -errno. */
int event_read_count(const struct event *event, uint64_t *count_ns);

/* The same of a descriptor. */
int event_read_count_of(int fd, uint64_t *count);

/* Has the thread ended? Then a ring that was mapped only afterwards has no record of it. Needs the
 * ring and the descriptor. */
bool event_has_ended(const struct event *event);

/*
 * Counts the writes of thread TID to the 8 bytes at ADDRESS, from now on, by a debug register of
 * the processor; the kernel's own writes are left out. Returns a descriptor for
 * event_read_count_of, or -errno: ENOSPC: no debug register is free.
 */
int event_open_watch(pid_t tid, uint64_t address);

/* A task clock of thread TID that makes no samples and counts from now on. Returns a descriptor for
 * event_read_count_of, or -errno. */
int event_open_clock(pid_t tid);

/* Bytes of the ring that one sample of this shape takes at the most, without kernel frames. */
size_t event_record_bytes(const struct event_shape *shape);

/* The kernel's limit of samples per second (perf_event_max_sample_rate), or 0 where it can't be
 * read. */
uint64_t event_rate_limit_hz(void);

#endif
