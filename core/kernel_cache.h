/*
 * One table of kernel symbols for all processes of a user, since each would else spend 70 ms on
 * reading /proc/kallsyms: a file in shared memory, where it ends with the boot, and readable by its
 * user only, as it tells where the kernel lies.
 *
 * Everybody may write to that directory. Hence a file is only taken if it is an ordinary one, of
 * ours, that nobody else may read or write and that has no second name; no symbolic link is
 * followed, and nothing waits on a FIFO. It is written without a name and gets one when it is
 * whole. Where anything is off, it is not used, and nobody is told: there are other ways to the
 * names.
 *
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_KERNEL_CACHE_H
#define SELFSAMPLE_CORE_KERNEL_CACHE_H

#include "kernel_table.h"

#define KERNEL_CACHE_DIRECTORY "/dev/shm"
#define KERNEL_CACHE_NAME      "selfsample-kernel-" /* and the user's number */

/* Where it is told what a table holds for. */
#define KERNEL_BOOT_ID_PATH "/proc/sys/kernel/random/boot_id"
#define KERNEL_MODULES_PATH "/proc/modules"

/*
 * Of this boot and the modules that are loaded, their addresses included; not of how often they
 * are in use. 0 where the boot has no id: then no table can be shared. A kernel without modules has
 * no such file.
 */
uint64_t kernel_fingerprint(const char *boot_id_path, const char *modules_path);

/* Opens the user's table in DIRECTORY. 0; -errno where there is none for this fingerprint. */
int kernel_cache_open(struct kernel_table *table, const char *directory, uint64_t fingerprint);

/*
 * Makes a table, in place of the user's earlier one. A FINGERPRINT of 0, or a directory that does
 * not allow it, gives one for this task alone, without a name. 0, with TABLE open, or -errno.
 */
int kernel_cache_create(struct kernel_table *table, const char *directory, uint64_t fingerprint,
                        const struct kernel_content *content);

#endif
