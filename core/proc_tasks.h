/*
 * The threads and the descriptors of a process, from /proc/PID, without allocation.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_PROC_TASKS_H
#define SELFSAMPLE_CORE_PROC_TASKS_H

#include <stddef.h>
#include <sys/types.h>

/* Calls EACH for every thread of PID. 0 once all were told; -errno where the directory can't be
 * read, or not to its end. */
int proc_tasks_read(pid_t pid, void (*each)(void *context, pid_t tid), void *context);

/* The same for its open descriptors, 0 left out. */
int proc_descriptors_read(pid_t pid, void (*each)(void *context, int fd), void *context);

/* Calls EACH for every name that is a number in BYTES bytes of directory entries, as getdents64(2)
 * leaves them at ENTRIES. */
void proc_tasks_parse(const void *entries, size_t bytes, void (*each)(void *context, pid_t tid),
                      void *context);

#endif
