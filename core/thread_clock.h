/*
 * A thread's CPU clock, as it is read from outside, against what its event has counted.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_THREAD_CLOCK_H
#define SELFSAMPLE_CORE_THREAD_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "threads.h"

/* Clocks of running threads are updated every tick; the slowest kernels have 100 a second. */
#define THREAD_CLOCK_LATE_NS 10000000u

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

/* What a thread has used, and how often it was on a processor for that. */
struct thread_times {
    uint64_t cpu_ns;
    uint64_t switches;
};

/* By its last word, or else by its schedstat file. False where neither tells. */
bool thread_times_read(const struct threads *threads, const struct thread *thread,
                       struct thread_times *times);

/*
 * The kernel stops a thread's event before it switches to another, and starts it once it has come
 * back: in between, some us each time, the thread's clock runs and the event does not. Can switches
 * have taken LEAST_NS of a settled thread that stands at TIMES, since it was last asked for them?
 */
bool thread_may_have_switched(const struct thread *thread, const struct thread_times *times,
                              uint64_t least_ns);

/* What such a thread has used when its event had counted COUNT_NS, soon after TIMES were read,
 * beyond that and what was told before; no more than so many switches can have taken. 0 where it is
 * less than LEAST_NS. */
uint64_t thread_switched_ns(struct thread *thread, const struct thread_times *times,
                            uint64_t count_ns, uint64_t least_ns);

#endif
