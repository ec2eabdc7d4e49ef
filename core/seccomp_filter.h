/*
 * The helper's own seccomp filter. The helper shares the app's memory, so whoever takes over the
 * app takes over the helper: the filter leaves it nothing to do but a profiler's work. No execve,
 * no clone, no socket, no signal to anybody, no ptrace, no memory that can be executed, no reading
 * of another process's memory.
 *
 * Calls that change the credentials are allowed, as far as the kernel allows them: the helper takes
 * those of the app (credentials.h).
 *
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_SECCOMP_FILTER_H
#define SELFSAMPLE_CORE_SECCOMP_FILTER_H

/*
 * Sets no_new_privs and the filter on the calling task alone, for good. What is not allowed fails
 * with EPERM from then on: before Linux 5.16 a death by the filter would take the app along.
 * Returns 0 or -errno: EINVAL or ENOSYS where the kernel has no such filters.
 */
int seccomp_filter_install(void);

/*
 * Would filters that this process has inherited kill it for a call of ours? Makes each call that
 * core makes once, in a child, with arguments that let it fail. Only to be asked where there are
 * filters (task_status.h). In the app's thread; the child is reaped.
 */
int seccomp_filter_inherited_kills(void);

#endif
