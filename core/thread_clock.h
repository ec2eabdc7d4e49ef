/*
 * A thread's CPU clock, as it is read from outside, against what its event has counted.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_THREAD_CLOCK_H
#define SELFSAMPLE_CORE_THREAD_CLOCK_H

#include <stdint.h>

#include "threads.h"

/* The CPU time of a thread by its schedstat file, ns: up to a tick behind where it is running now;
 * 0 where it can't be read. */
uint64_t thread_read_cpu_ns(pid_t app_pid, pid_t tid);

/*
 * What a thread's event has counted up to COUNT_NS beyond what the thread has used, and was not
 * told before. A task clock runs on while a hypervisor keeps the processor, and in interrupts; the
 * thread's CPU clock does not. The clock read from outside may be a tick late, so it tells to 10
 * ms; of a thread that stands for others such a tick would count as often as these are, and less is
 * better than more. Tells MOST_NS at the most, and what is beyond that the next time.
 */
uint64_t thread_stolen_ns(const struct threads *threads, struct thread *thread, uint64_t count_ns,
                          uint64_t most_ns);

#endif
