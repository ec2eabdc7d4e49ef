/*
 * The places of a profile: a file beside the folded one that says where in the code its frames are,
 * which names no longer tell. From it the `selfsample` command makes the same profile with the
 * functions that the compiler inlined, once the app has ended. It is text:
 *
 *     selfsample places 1
 *     folded BYTES                  the length of the folded file it belongs to
 *     unit_ns N                     what a count of 1 stands for there
 *     module INODE BUILD_ID PATH    those of the profile, numbered from 0; "-": no build id
 *     frame MODULE ADDRESS NAME     likewise; MODULE "-": not in a file; ADDRESS: hexadecimal, as
 *                                   linked, of callers one inside the call instruction
 *     node PARENT FRAME WEIGHT_NS [OWED_NS]
 *                                   the tree, numbered from 0, parents first; PARENT "-": a root;
 *                                   OWED_NS: what earlier files of a series left out, if anything,
 *                                   or (< 0) were ahead of
 *     end
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_PLACES_H
#define SELFSAMPLE_CORE_PLACES_H

#include <stdint.h>

#include "folded.h"
#include "modules.h"
#include "outfile.h"
#include "profile.h"

#define PLACES_SUFFIX ".places" /* behind the name of the folded file */
#define PLACES_TITLE  "selfsample places 1"

struct places {
    const struct profile *profile;
    struct name_source names; /* as the folded file has them */
    const int64_t *owed_ns;   /* as in struct named_profile before that was written; NULL: none */
    const struct modules *modules;
    uint64_t unit_ns;
    uint64_t folded_bytes;
};

/* Writes the file into OUT, which has been begun. 0, or the error of OUT, with which outfile_commit
 * will fail too. */
int places_write(const struct places *places, struct outfile *out);

/*
 * Begins OUT, zeroed before its first use, as the file beside the committed FOLDED. One that it was
 * before for a file of another name is let go of. 0, or -errno; -EEXIST: another file has the name,
 * and no other would be found.
 */
int places_begin(struct outfile *out, const struct outfile *folded);

/* As outfile_withdraw and outfile_close, also where OUT was never begun. */
void places_withdraw(struct outfile *out);
void places_close(struct outfile *out);

#endif
