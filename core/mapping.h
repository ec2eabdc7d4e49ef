/*
 * Anonymous memory of our own in the program's address space.
 *
 * RLIMIT_DATA counts private memory that can be written, the zeros of libraries among it. So tables
 * that many a process does without are mapped when they are first needed, and where that limit is
 * set, what no fork copies is shared memory, which does not count: the program has all of its
 * limit.
 *
 * Thread safety: any task, at any time, also in a signal handler that interrupts another call. No
 * lock, no libc; errno stays as it is.
 */
#ifndef SELFSAMPLE_CORE_MAPPING_H
#define SELFSAMPLE_CORE_MAPPING_H

#include <stddef.h>

/*
 * The table at *PLACE, which is made of BYTES zeros where that is NULL; of several that come at the
 * same time all get the same. It stays for good, and a fork copies it. NULL: there is no memory,
 * and the next call tries again.
 */
void *mapping_late_table(void **place, size_t bytes);

/* BYTES zeros. The caller sees to it that a fork does not copy them (MADV_DONTFORK,
 * MADV_WIPEONFORK; the kernel wipes private memory alone). An address for which sys_is_error()
 * holds: -errno. */
void *mapping_not_for_forks(size_t bytes);

#endif
