/*
 * One profile into one file: names for its frames, the file in its format, and the places beside
 * it.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_WRITING_H
#define SELFSAMPLE_CORE_WRITING_H

#include "kernel_symbols.h"
#include "outfile.h"
#include "session.h"
#include "stack_frames.h"

struct writing {
    struct session *session;
    const struct stack_builder *stacks; /* who made the frames */
    struct kernel_symbols *kernel;
    const struct profile *profile; /* all that stacks->profile has, or a part of a series */
    int64_t *owed_ns;              /* as in struct named_profile */
    enum config_format format;
    uint64_t began_ns;      /* what the file tells of, since 1970 */
    struct outfile *out;    /* has been begun */
    struct outfile *places; /* NULL: none are wanted */

    /* said by writing_do */
    bool kernel_hidden; /* see frame_names.h */
    int places_error;   /* why there are none though they are wanted; the profile is whole */
};

/* Writes, and commits; aborts where all weights come to nothing in the file's unit (-ENODATA).
 * NAMES is given back as it was. 0 or -errno. */
int writing_do(struct writing *writing, struct arena *names);

#endif
