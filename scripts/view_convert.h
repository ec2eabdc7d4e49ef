/*
 * What `selfsample convert` makes of a tree of stacks, sorted and with counts on side 0. ROOTS
 * frames in front of the functions are no functions; the last of them is the thread. Errors of OUT
 * are left to view_output_close.
 */
#ifndef SELFSAMPLE_SCRIPTS_VIEW_CONVERT_H
#define SELFSAMPLE_SCRIPTS_VIEW_CONVERT_H

#include "views.h"

/* JSON, with a profile for each thread, called TITLE. */
void speedscope_print(FILE *out, const struct stacks *stacks, const char *title,
                      const struct view_options *options, size_t roots);

/* A pprof file, with threads, and programs in front of them, as labels. */
void pprof_print(FILE *out, const struct stacks *stacks, const char *title,
                 const struct view_options *options, size_t roots);

#endif
