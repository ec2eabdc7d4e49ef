/*
 * How late the interrupts of clock events come: some us where the kernel has the machine for
 * itself, 50 in some virtual machines.
 *
 * The timer of an event of period Q goes on by whole periods, however late it was. So what a count
 * at a sample is beyond a multiple of Q is how late that one came.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_LATENESS_H
#define SELFSAMPLE_CORE_LATENESS_H

#include <stdint.h>

/* All 0 before the first sample. */
struct lateness {
    uint64_t ns; /* the median, followed by steps */
    uint32_t noted;
};

/* A sample at COUNT_NS of an event that has had a period of PERIOD_NS from its start. Short periods
 * tell nothing. */
void lateness_note(struct lateness *lateness, uint64_t period_ns, uint64_t count_ns);

#endif
