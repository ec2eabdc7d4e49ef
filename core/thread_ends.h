/*
 * What the kernel takes to end threads. It comes after the thread's last samples and after its last
 * word, on no clock but the process's: so what that shows beyond all accounts is booked as
 * `[thread end]`, under the names of those that ended, where many have. Each end allows for a
 * certain time, so that what is missing for another reason (threads without an event, lost records)
 * is not taken for it.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_THREAD_ENDS_H
#define SELFSAMPLE_CORE_THREAD_ENDS_H

#include <stdint.h>

#include "stack_frames.h"
#include "threads.h"

#define THREAD_ENDS_NAMES 32u /* more share the last */

struct thread_ends {
    struct {
        char name[THREAD_NAME_BYTES];
        uint64_t most_ns; /* that its ends can have taken, of what is not booked yet */
    } names[THREAD_ENDS_NAMES];
    uint32_t used; /* names */
    uint64_t count;
};

/* THREAD has ended. */
void thread_ends_note(struct thread_ends *ends, const struct thread *thread);

/* Have so many ended that it is worth a line of the profile? */
bool thread_ends_are_many(const struct thread_ends *ends);

/* Books what it may of MISSING_NS, what the process's clock shows and no account does, if that is
 * worth a line: LEAST_NS. */
void thread_ends_book(struct thread_ends *ends, struct stack_builder *stacks, uint64_t missing_ns,
                      uint64_t least_ns);

#endif
