/*
 * Taking the credentials of another task: real, effective, saved and file system ids,
 * supplementary groups, capabilities. Of the calling task alone: libc, which would ask the threads
 * of a process to do the same, knows nothing of it.
 *
 * What is wanted goes as far as the kernel lets the caller go: downwards always, upwards to what it
 * has kept as a saved id.
 *
 * Thread safety: no state; the helper.
 */
#ifndef SELFSAMPLE_CORE_CREDENTIALS_H
#define SELFSAMPLE_CORE_CREDENTIALS_H

#include <stdbool.h>

#include "task_status.h"

/* The app's calls that take "dumpable" away; the hook on prctl counts them. Both are atomic. */
struct undumping {
    uint32_t begun, ended;
};

/*
 * Takes WANTED's users, groups and capabilities; of the latter never more than the caller has. The
 * kernel forgets the signal of the parent's death with it. What a change of users does to the
 * memory's "dumpable", which the app shares, is undone: the app's own change has done it already,
 * and the app may have said something else since. But never over a call of UNDUMPING that comes in
 * between; one by a raw system call is not seen, and lost if it comes within that time, some us.
 * Returns 0, or the first -errno.
 */
int credentials_take(const struct task_status *wanted, const struct undumping *undumping);

/* Has the caller any capability? */
bool credentials_are_privileged(void);

/*
 * May WANTED make files in DIRECTORY? A privileged caller has WANTED's groups and real user
 * afterwards, and is to take the rest next.
 */
bool credentials_may_write(const struct task_status *wanted, const char *directory);

#endif
