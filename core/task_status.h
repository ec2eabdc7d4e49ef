/*
 * What /proc/PID/status tells of a task's powers: whom it acts for, which capabilities it has, and
 * what it has given up.
 *
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_TASK_STATUS_H
#define SELFSAMPLE_CORE_TASK_STATUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TASK_STATUS_GROUPS_MAX 1024u
#define TASK_STATUS_BYTES      16384u /* of text that is read: room for all these groups */

/* As the columns of Uid: and Gid: stand. */
enum task_identity { TASK_REAL, TASK_EFFECTIVE, TASK_SAVED, TASK_FS, TASK_IDENTITIES };

struct task_status {
    pid_t process_pid; /* whose thread it is */
    pid_t parent_pid;
    bool is_zombie;
    uint32_t uids[TASK_IDENTITIES];
    uint32_t gids[TASK_IDENTITIES];
    uint64_t inheritable, permitted, effective; /* capabilities, bit N: number N */
    uint32_t seccomp_mode;                      /* 0: none; 1: strict; 2: filters */
    uint32_t seccomp_filters;                   /* their number; 0 before Linux 5.9 */
    uint32_t group_count;                       /* what is beyond the limit is left out */
    uint32_t groups[TASK_STATUS_GROUPS_MAX];
};

/* Reads the text of such a file. False where it does not tell all of it, and *STATUS then tells
 * nothing. */
bool task_status_parse(struct task_status *status, const char *text, size_t length);

/* Reads the open file FD from its start. 0 or -errno: ESRCH: the task is gone; EBADMSG: it does not
 * tell all of it. BUFFER: TASK_STATUS_BYTES. */
int task_status_read(struct task_status *status, int fd, char *buffer);

/* Do both act for the same users and groups, with the same capabilities? */
bool task_status_same_credentials(const struct task_status *a, const struct task_status *b);

/* Do both act for the same users and groups where files are concerned? */
bool task_status_same_files(const struct task_status *a, const struct task_status *b);

#endif
