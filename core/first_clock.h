/*
 * The CPU clock of the process's first thread, to be read when it has ended: a process that leaves
 * by _exit, or is killed, is often reaped before anybody can ask for its clock. Where time in the
 * kernel makes no samples that clock is all that tells of it (kernel_time.h).
 *
 * It is a task clock of the helper's that makes no samples. Opening it costs the program nothing
 * where its thread does not run, and else an interrupt; it is closed when the thread is settled,
 * whose event then counts. On a busy machine the helper may come too late to open it: what a thread
 * notes before it calls _exit is the next best.
 *
 * Thread safety: one task at a time, the helper; and one thread of the app's that leaves.
 */
#ifndef SELFSAMPLE_CORE_FIRST_CLOCK_H
#define SELFSAMPLE_CORE_FIRST_CLOCK_H

#include <stdint.h>
#include <sys/types.h>

/* Beside those of status.h and requests.h, and perhaps the app's stderr. It is opened first. */
#define FIRST_CLOCK_FD 3

struct first_clock {
    pid_t tid; /* 0: there is none */
    int fd;
    uint64_t before_ns; /* what its process had used when this began to count */
    uint64_t ahead_ns;  /* that the thread had not: threads that an exec has ended. Set by the app,
                           before it posts the thread's birth */
    /* said by the app */
    pid_t left_tid;       /* the thread that was about to leave by _exit */
    uint64_t left_tid_ns; /* its CPU clock */
    uint64_t left_ns;     /* its process's; 0: nothing was noted */
};

/* Begins to count what TID uses. There is none where that is refused, or where files of
 * modules need the few descriptors that there are. */
void first_clock_open(struct first_clock *clock, pid_t tid);

/* Its process, of which it is all so far, has used USED_NS by now (0: that is not known, and there
 * is no clock). */
void first_clock_set(struct first_clock *clock, uint64_t used_ns);

/* Notes the clocks of the calling thread, which is about to end its process. */
void first_clock_note_exit(struct first_clock *clock);

/* The least that the clock of its process shows by now, or did when TID ended; 0: not known. */
uint64_t first_clock_process_ns(const struct first_clock *clock);

/* What thread TID has used by now, or had when it ended; 0 where this clock does not tell. */
uint64_t first_clock_ns(const struct first_clock *clock, pid_t tid);

void first_clock_close(struct first_clock *clock);

#endif
