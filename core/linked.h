/*
 * The code that libc's linker has loaded, as it says itself: for where there is no /proc that could
 * tell. Filled in the constructor, in the app's thread, and only read from then on.
 */
#ifndef SELFSAMPLE_CORE_LINKED_H
#define SELFSAMPLE_CORE_LINKED_H

#include <stdint.h>

#define LINKED_MAX        256u
#define LINKED_PATH_BYTES 4096u

struct linked_code {
    uint64_t start, bytes; /* whole pages */
    uint64_t file_offset;
    uint64_t inode;   /* 0: of no file, or of one that is not there any more */
    const char *path; /* the linker's, which stays, or program_path; "[vdso]" */
};

struct linked {
    uint32_t count; /* 0 where /proc can tell */
    struct linked_code code[LINKED_MAX];
    char program_path[LINKED_PATH_BYTES]; /* absolute */
};

#endif
