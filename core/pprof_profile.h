/*
 * A profile as a pprof file. What folded.h has as frames in front of the functions are labels of
 * the samples here: `thread`, `tid` where threads are told apart by it, and `label`. All else is
 * alike: the same stacks of the same names, and counts that add up to the same for each of them.
 * Beside its count a sample has its exact weight. Stacks that differ in addresses alone are
 * different samples.
 *
 * A location is where its code was in memory, in a mapping with the build id of its file; code of a
 * file that is not mapped any more is where it was linked to be. Kernel functions, code made at run
 * time and frames that stand for something else, as [truncated], are in no mapping.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_PPROF_PROFILE_H
#define SELFSAMPLE_CORE_PPROF_PROFILE_H

#include "name_tree.h"
#include "outfile.h"
#include "pprof.h"
#include "stack_frames.h"

/*
 * Writes NAMED, whose frames STACKS has made, into OUT, which has been begun. SCRATCH is given back
 * as it was. Returns 0, -ENOMEM, or the error of OUT. After any of these outfile_commit fails too.
 */
int pprof_profile_write(const struct named_profile *named, const struct stack_builder *stacks,
                        const struct pprof_facts *facts, struct outfile *out,
                        struct arena *scratch);

#endif
