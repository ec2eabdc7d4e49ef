/*
 * Reads a maps file of /proc, line by line, without allocation. Format: proc(5), /proc/PID/maps.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_PROC_MAPS_H
#define SELFSAMPLE_CORE_PROC_MAPS_H

#include <stdbool.h>
#include <stdint.h>

struct proc_maps_entry {
    uint64_t start, end; /* [start, end) */
    uint64_t file_offset;
    uint64_t inode; /* 0: no file */
    bool executable;
    const char *path; /* "" without one; as the kernel writes it, " (deleted)" included */
};

/* Calls EACH for every mapping, in ascending order. 0, or -errno of opening or reading the file.
 * Lines that do not parse are left out. */
int proc_maps_read(const char *maps_path,
                   void (*each)(void *context, const struct proc_maps_entry *entry), void *context);

#endif
