/*
 * An output file that is there whole or not at all, and never in place of somebody else's.
 *
 * It is written under a temporary name in its directory. Committing gives it its name if that is
 * free, else the first of NAME.1, NAME.2 ... (see outpath_with_suffix) that is: nothing is
 * overwritten, no symbolic link of that name followed. Beside what is special (see below) there is
 * none at all: EEXIST.
 * A file that was committed may be written anew (a checkpoint): the next commit replaces it at
 * once, as long as the name still leads to the file that we made.
 *
 *     outfile_init
 *     any number of times: outfile_begin, outfile_put ..., outfile_commit
 *     outfile_close
 *
 * Every error is a -errno of the kernel: ENOSPC, EFBIG (block or ignore SIGXFSZ to see that one),
 * EROFS and so on. System calls made: openat, write, dup, fstat, newfstatat, readlinkat, renameat,
 * renameat2, linkat, unlinkat, ftruncate, lseek, close, getpid, clock_gettime.
 *
 * Thread safety: one task at a time per struct outfile.
 */
#ifndef SELFSAMPLE_CORE_OUTFILE_H
#define SELFSAMPLE_CORE_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "outpath.h"

#define OUTFILE_BUFFER_BYTES 65536u
#define OUTFILE_SUFFIX_MAX   10000u /* the last .N that is tried */

/* Some 80 KB: not for the helper's stack. */
struct outfile {
    int directory_fd; /* the caller's; paths are relative to it */
    int fd;           /* of the temporary file; -1: none */
    int committed_fd; /* keeps the inode of the committed file from being reused; -1: none */
    int error;        /* the first since outfile_begin; 0: none */
    bool in_place;    /* fd is a copy of committed_fd, as no other file can be made, or in memory */
    uint64_t bytes;   /* written since outfile_begin, the buffered ones included */
    uint32_t *progress; /* counts writes, for whoever waits; NULL: nobody does */
    size_t buffered;
    char path[OUTPATH_BYTES];      /* wanted */
    char name[OUTPATH_BYTES];      /* had: that of the committed file; "": none */
    char temporary[OUTPATH_BYTES]; /* while fd is open */
    char buffer[OUTFILE_BUFFER_BYTES];
};

/* For a file at PATH, relative to DIRECTORY_FD (AT_FDCWD will do), which must stay open. Opens
 * nothing. Returns 0, -ENAMETOOLONG, or -EISDIR for a path that is empty or ends in a slash. */
int outfile_init(struct outfile *out, int directory_fd, const char *path);

/*
 * Opens the temporary file, with mode 0666 less the umask. An earlier one must be committed or
 * aborted. Where a file was committed and no other may be made in the directory any more (the
 * caller has given up its rights), that one is emptied and written anew.
 */
int outfile_begin(struct outfile *out);

/*
 * Instead of outfile_init and outfile_begin: for a file in memory, which has no name in any file
 * system and NAME in the links of /proc/PID/fd. Once committed its descriptor is committed_fd.
 */
int outfile_begin_memory(struct outfile *out, const char *name);

/* Appends bytes. After an error it does nothing; outfile_commit tells. */
void outfile_put(struct outfile *out, const char *bytes, size_t length);

/* Writes out what is buffered and gives the file its name. On an error the temporary file is
 * removed and a file committed earlier stays as it is. */
int outfile_commit(struct outfile *out);

/* Removes the temporary file if there is one. */
void outfile_abort(struct outfile *out);

/* Removes the committed file if nothing was ever written to it: it only kept the name. */
void outfile_withdraw(struct outfile *out);

/* Aborts, and lets go of the committed file. OUT may be given to outfile_init again. */
void outfile_close(struct outfile *out);

/* Does PATH, relative to where we are, lead to a directory? By a symbolic link only if that is
 * root's or our own: anybody may leave one in /tmp. */
bool outfile_is_directory(const char *path);

/* Is PATH, relative to the directory AT, that of a device, a pipe, a socket, or in /proc, as the
 * descriptors of a process are? Also by a symbolic link, as /dev/stdout is one, if that is root's
 * or our own. Beside such a name nobody wants a file. */
bool outfile_is_special(int at, const char *path);

/* Puts the absolute path of the file NAME, for readers that have another working directory. */
void outfile_absolute(struct text *path, const char *name);

#endif
