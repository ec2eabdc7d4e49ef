/*
 * What became of one process's run, as a line for the `selfsample` command and as text for people.
 *
 * The report is lines of `key=value`, separated by single spaces, at most SUMMARY_REPORT_BYTES long
 * so that a FIFO takes each as a whole:
 *
 *     start pid=N program=NAME
 *     part pid=N file=PATH
 *     end pid=N samples=N cpu_seen_ns=N cpu_clock_ns=N kernel_ns=N switched_ns=N whole=N
 *         truncated=N lost=N threads=N uncovered=N thinned=N throttled=N own_ns=N rate_hz=N
 * helper_cpu_ns=N arena_bytes=N engine=NAME kernel=yes|no [kernel_reason=TEXT] program=NAME
 * too_short=yes|no [error=TEXT] file=PATH
 *
 * A part is a file of a series that was written, the last one as well. An end is one line. The last
 * value of a line goes up to the end of the line. In all values control characters and `%` stand as
 * %XX, and so do spaces in those that are not the last. file is empty where nothing was written.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_SUMMARY_H
#define SELFSAMPLE_CORE_SUMMARY_H

#include <stdbool.h>
#include <stdint.h>

#include "text.h"

#define SUMMARY_REPORT_BYTES 4096u /* its newline included */

struct summary {
    int pid;
    const char *program;

    uint64_t samples;      /* stacks that were recorded and counted */
    uint64_t cpu_seen_ns;  /* the sum of the file: what the samples weigh, and kernel_ns */
    uint64_t cpu_clock_ns; /* what the process used, but for own_ns; 0: not known */
    uint64_t own_ns;       /* what our part of its threads' births took */
    uint64_t kernel_ns;    /* surely spent in the kernel, where it refuses kernel samples; what it
                              was in all is somewhat more */
    uint64_t switched_ns;  /* used while the threads were switched to, beyond what samples tell */
    uint64_t whole_stacks;
    uint64_t truncated_stacks;
    uint64_t lost_samples;
    uint64_t threads; /* that were profiled */
    uint64_t uncovered_threads;
    uint64_t thinned_threads; /* too many and too short: represented by others */
    uint64_t throttled;       /* how often the kernel held the sampling back */

    const char *engine;
    uint64_t rate_hz;
    bool kernel_frames;
    const char *kernel_reason; /* why there are none, or none with names; NULL: none to give */

    uint64_t helper_cpu_ns;
    uint64_t arena_bytes;

    bool too_short;        /* less CPU time than one period: there is to be no file */
    const char *file_path; /* NULL: nothing was written */
    const char *error;     /* what went wrong; NULL: nothing */
};

/* One line, without its newline. TEXT should have SUMMARY_REPORT_BYTES. Strings that are NULL count
 * as empty. */
void summary_report_start(const struct summary *summary, struct text *text);
void summary_report_part(int pid, const char *path, struct text *text);
void summary_report(const struct summary *summary, struct text *text);

/* Four lines, and one each for kernel time without frames and for what went wrong. Each has
 * `selfsample: ` in front; there is no newline behind the last. */
void summary_print(const struct summary *summary, struct text *text);

#endif
