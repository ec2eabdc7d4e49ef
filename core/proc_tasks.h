/*
 * The threads and the descriptors of a process, from /proc/PID, without allocation; and the names
 * of the files there.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_PROC_TASKS_H
#define SELFSAMPLE_CORE_PROC_TASKS_H

#include <stddef.h>
#include <sys/types.h>

#define PROC_PATH_BYTES 64u /* for a FILE of up to 16 */

/* Puts "/proc/PID" and FILE, as "/comm", into PATH (PROC_PATH_BYTES). */
void proc_path(char *path, pid_t pid, const char *file);

/* The same of "/proc/PID/task/TID". */
void proc_task_path(char *path, pid_t pid, pid_t tid, const char *file);

/* Calls EACH for every thread of PID. 0 once all were told; -errno where the directory can't be
 * read, or not to its end. */
int proc_tasks_read(pid_t pid, void (*each)(void *context, pid_t tid), void *context);

/* The same for its open descriptors, 0 left out. */
int proc_descriptors_read(pid_t pid, void (*each)(void *context, int fd), void *context);

/* The same for those of the calling thread, whatever /proc calls it. EACH may close what it is told
 * of: but for 0, which the directory itself takes if it is free. */
int proc_own_descriptors_read(void (*each)(void *context, int fd), void *context);

/* Calls EACH for every name that is a number in BYTES bytes of directory entries, as getdents64(2)
 * leaves them at ENTRIES. */
void proc_tasks_parse(const void *entries, size_t bytes, void (*each)(void *context, pid_t tid),
                      void *context);

#endif
