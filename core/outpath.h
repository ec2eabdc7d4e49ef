/*
 * The name of the output file, out of the pattern in SELFSAMPLE_OUT:
 *
 *     %p  process id                  %t  time of the start, UTC, as 20240229T235959
 *     %e  program name                %n  counter of the files written
 *     %h  host name                   %{VAR}  environment variable, nothing where unset
 *     %%  a percent sign
 *
 * A result that is empty or ends in a slash gets the default name behind it. Control characters of
 * what is put in become `_`, and so do slashes, but for those of environment variables.
 *
 * In two steps, since the environment can only be read at the start, and %n counts later:
 * outpath_expand puts in all but %n, outpath_number makes a path of the result.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_OUTPATH_H
#define SELFSAMPLE_CORE_OUTPATH_H

#include <stdbool.h>
#include <stdint.h>

#include "text.h"

#define OUTPATH_DEFAULT     "selfsample.%e.%p" /* with the ending of the format behind it */
#define OUTPATH_FOLDED      ".folded"
#define OUTPATH_PPROF       ".pb.gz"
#define OUTPATH_PPROF_SHORT ".pb" /* also taken for pprof's, which is packed in any case */
#define OUTPATH_BYTES       4096u /* PATH_MAX: what the kernel takes, the NUL included */

struct outpath_facts {
    int pid;
    const char *program; /* a name or a path, of which the last part counts */
    const char *host;
    const char *ending;     /* of the default name */
    uint64_t start_seconds; /* since 1970-01-01 UTC; past the year 9999 shown as its end */
    char *const
        *environment; /* as environ is: in the app's constructor only, the app may free it */
};

/*
 * Appends the expanded PATTERN to NAMES: a pattern once more, with %n and %% alone. Returns 0, or
 * -ENAMETOOLONG where NAMES was too small (then it is cut). An unknown placeholder is kept as it
 * stands and gives one line to COMPLAIN, with "selfsample: " in front and no newline, valid during
 * the call.
 */
int outpath_expand(struct text *names, const char *pattern, const struct outpath_facts *facts,
                   void (*complain)(void *context, const char *line), void *context);

/* Appends to PATH what outpath_expand made, with COUNTER for each %n. Returns whether there was
 * one. */
bool outpath_number(struct text *path, const char *names, uint64_t counter);

/* Appends PATH with .N before the ending of its last part: a.folded is a.1.folded, a.pb.gz is
 * a.1.pb.gz, a is a.1. For N 0, PATH as it is. */
void outpath_with_suffix(struct text *text, const char *path, unsigned n);

/* The last part of PATH: where it starts. PATH itself where there is no slash. */
const char *outpath_base(const char *path);

#endif
