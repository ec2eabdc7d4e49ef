/*
 * pprof files for the views of the command: one of ours becomes what the folded file of the same
 * profile would be. Labels become frames: `program`, if there is one, `thread` and `label`. Files
 * of other programs have no such labels; their stacks stand under [no thread].
 */
#ifndef SELFSAMPLE_SCRIPTS_PPROF_READ_H
#define SELFSAMPLE_SCRIPTS_PPROF_READ_H

#include "views.h"

#define PPROF_BYTES_MAX (512u * 1024 * 1024)

/* A whole file, packed by gzip. */
struct pprof_bytes {
    const char *file; /* as it is told */
    const char *bytes;
    size_t length; /* PPROF_BYTES_MAX at most */
};

/*
 * Adds BYTES to SIDE of STACKS, below BASE. The counts are, as options->is_us says, of samples or
 * of microseconds; where the file has no such values they are made of those that it has, by its
 * period. options->rate becomes that of the file, unless it is known already: then counts are made
 * for that. options->roots 0: without threads. Ends the process where the file is damaged.
 */
void pprof_read(struct stacks *stacks, int side, struct node *base, const struct pprof_bytes *bytes,
                struct view_options *options);

#endif
