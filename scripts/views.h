/*
 * The sub-commands of `selfsample` that show folded profiles: top, tree, merge, diff, convert,
 * flamegraph; and list and live, which show those of running processes (live.h). Each of the former
 * reads its files into a tree of stacks (stacks.h), prints one thing on stdout and ends. Ordinary
 * code: libc, one thread. A mistake or a damaged file costs one line on stderr and exit status 1.
 *
 *     command_views (which one, options) -> view_read (files -> stacks) -> view_* (text) -> stdout
 */
#ifndef SELFSAMPLE_SCRIPTS_VIEWS_H
#define SELFSAMPLE_SCRIPTS_VIEWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "stacks.h"

enum sort_key { SORT_SELF, SORT_TOTAL };

struct view_options {
    size_t rows; /* 0: all */
    enum sort_key sort;
    const char *thread; /* a pattern; NULL: all threads */
    size_t roots;       /* frames at the root that are no functions */
    bool is_us;         /* the counts are microseconds */
    double rate;        /* samples per second of CPU time */
    bool unit_is_known, rate_is_known, roots_are_known; /* by options, or by files */
    bool unit_is_given, rate_is_given; /* by options: for all files, whatever these say */
    double side_rates[SIDES];          /* the lowest of what was read; 0: as rate */
    double cut;                        /* a share, 0 to 1 */
    bool wide;                         /* names are not shortened */
    bool by_thread;                    /* top, live: a function of two threads is two functions */
    bool merge_threads;                /* tree, diff, flamegraph: without the frames of threads */
    bool all;                          /* live: begin with all so far */
    double interval_s;                 /* live */
    size_t count;                      /* live: tables to show; 0: as long as there are any */
    bool folded, normalised;           /* diff */
    const char *out;                   /* NULL: stdout */
    const char *root;                  /* merge: instead of the programs' names; NULL: these */
    const char *format;                /* convert */
    bool difference;                   /* flamegraph: of two profiles */
    bool sum;                          /* flamegraph, convert: several files are of one program */
    const char *title;                 /* flamegraph; NULL: made of the files' names */
    const char *const *programs;       /* of each file; NULL: as the files' names tell */
};

/* Where no option says anything. */
extern const struct view_options view_options_default;

/* Has VIEW print, and ends the process: with 1 after a line where not all could be written. */
_Noreturn void view_do(void (*view)(struct view_options *, char **, size_t),
                       struct view_options *options, char **files, size_t count);

/* Each prints its view of COUNT FILES. */
void view_top(struct view_options *options, char **files, size_t count);
void view_tree(struct view_options *options, char **files, size_t count);
void view_merge(struct view_options *options, char **files, size_t count);
void view_diff(struct view_options *options, char **files, size_t count);
void view_convert(struct view_options *options, char **files, size_t count);
void view_flamegraph(struct view_options *options, char **files, size_t count);

/* The same of running processes. */
void view_list(struct view_options *options, char **none, size_t count);
void view_doctor(struct view_options *options, char **command, size_t count);
void view_live(struct view_options *options, char **process, size_t count);

/* ---- view_top.c: the table of functions ---- */

/* Of the counts of side 0 or, with ONLY_NEW, of what side 1 has more. Returns how many functions
 * are left out. */
size_t top_print(const struct stacks *stacks, bool only_new, const struct view_options *options);

/* Ends the process with one line where not all that was printed could be written. */
void view_stdout_finish(void);

/* Ends the process with one line. */
_Noreturn void view_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- view_output.c: where a view goes, and in what characters ---- */

/* A file that is there is written over, but for one of the COUNT FILES that were read: there the
 * process ends. view_output_close ends it where not all could be written. */
FILE *view_output_open(const struct view_options *options, char **files, size_t count);
void view_output_close(FILE *out, const struct view_options *options);

/* Writes out what OUT holds back. 0, or as an errno why not all that was ever put into it could be
 * written. */
int view_stream_error(FILE *out);

/* Prints the characters of a JSON string, without its quotes. What is no UTF-8 becomes U+FFFD. It
 * may stand in a script of an HTML page: < is escaped, so that nothing ends the script. */
void json_print(FILE *out, const char *string);

/* Writes each stack that has a count on one of SIDES sides, and its counts on all of them. */
void folded_print(FILE *out, const struct stacks *stacks, int sides);

/* ---- view_read.c: folded files ---- */

/*
 * Adds FILE ("-": stdin) to SIDE of STACKS, under a frame ROOT unless that is NULL. With
 * options->thread only the stacks of such threads, whose frame is the last of options->roots. The
 * first file of all settles options->rate, where it tells one. Ends the process where the file
 * can't be read or is damaged.
 */
void view_read(struct stacks *stacks, int side, const char *file, const char *root,
               struct view_options *options);

/* Is the frame of this number, from the root on and from 1, that of a thread, and not to be shown?
 * Where it is the last of its stack it is shown. */
bool view_leaves_out(const struct view_options *options, size_t frame, bool is_last);

/* Adds COUNT FILES to side 0. Ends the process where they left nothing to be shown. */
void view_read_all(struct stacks *stacks, char **files, size_t count, struct view_options *options);

/* Are COUNT files shown under frames of their programs? */
bool view_has_programs(const struct view_options *options, size_t count);

/* Adds COUNT FILES to side 0, under frames of their programs where these are shown. Ends the
 * process where they left nothing to be shown. With options->merge_threads options->roots is one
 * less from then on. */
void view_read_programs(struct stacks *stacks, char **files, size_t count,
                        struct view_options *options);

/* Adds COUNT FILES, SIDES at most, each to a side of its own. Ends the process, and leaves
 * options->roots, as above. */
void view_read_sides(struct stacks *stacks, char **files, size_t count,
                     struct view_options *options);

/* Says in a line where most of two sides are stacks of other programs' or threads' names, which are
 * no changes, and what compares them. */
void view_sides_judge(const struct stacks *stacks, const struct view_options *options);

/* Ends the process where FILES left nothing to be shown. */
void view_expect_counts(const struct stacks *stacks, int side, const char *file,
                        const struct view_options *options);

/* The program that file number INDEX of FILES, a profile, is of: by the options, else by its name,
 * selfsample.PROGRAM.PID.folded, else that without directory and ending. To be freed. */
char *view_program_of(const struct view_options *options, char **files, size_t index);

/* ---- view_facts.c: what files say of themselves beside their text ---- */

/* Takes of COUNT FILES what no option has said: of the first that says anything. Tells where others
 * say something else. */
void view_facts_take(struct view_options *options, char **files, size_t count);

/* Does FILE say anything? */
bool view_facts_are_there(const char *file);

/* What makes the counts of a file, of another unit or rate maybe, those that the options speak of:
 * TIMES of these are as much CPU time as PER of the file's. */
struct scale {
    uint64_t times, per;
    uint64_t taken, given; /* so far */
};

/* That of FILE, for SIDE of what is read; 1 for 1 where it says nothing. Settles the side's rate.
 */
struct scale view_facts_scale(struct view_options *options, int side, const char *file);

/* Something that is read into SIDE was sampled at RATE: errors go by the lowest. */
void view_side_sampled(struct view_options *options, int side, double rate);

/* The next COUNT of the file, scaled; what rounding takes from one the ones behind it get. False
 * where the sum does not fit into 64 bits. */
bool scale_count(struct scale *scale, uint64_t *count);

/* Says of OUT, a folded profile that has been written, what is known of it. ROOTS: its frames in
 * front of functions. */
void view_facts_attach(FILE *out, const struct view_options *options, size_t roots);

/* ---- view_page.c: the page of `flamegraph` ---- */

/* What stands in front of the profile and what behind it. */
struct page {
    const char *head, *tail; /* NULL: the command was built without it */
    size_t head_bytes, tail_bytes;
};

struct page page_find(void);

/* What is said where it is missing. */
#define PAGE_IS_MISSING                                                                            \
    "this selfsample was built without the page, as packages of npm were missing; `make deps` "    \
    "and then `make` in its source folder put it in"

/* ---- view_numbers.c: functions, shares and errors ---- */

/* Sums up, into the names of STACKS, the functions: what stands behind ROOTS frames, or the last
 * frame of a stack that has no more. A function that stands in a stack twice counts once in its
 * total. Returns those that have counts, *COUNT of them; to be freed. */
struct name **functions_count(const struct stacks *stacks, size_t roots, size_t *count);

/* Makes BY_THREAD of STACKS: the same, with each function's name behind that of its thread. */
void stacks_name_threads(struct stacks *by_thread, const struct stacks *stacks, size_t roots);

/* Different beginnings of ROOTS frames, which several threads of one name have in common. */
size_t thread_names_count(const struct stacks *stacks, size_t roots);

/* PART of WHOLE in percent, 0 where WHOLE is 0. */
double percent(uint64_t part, uint64_t whole);

/* The standard error of the share that COUNT of SIDE is of ALL, in points of percent: that of
 * sqrt(n p (1 - p)) samples. */
double share_error(const struct view_options *options, int side, uint64_t count, uint64_t all);

/* Samples a second, of which the errors of SIDE are reckoned. */
double side_rate(const struct view_options *options, int side);

/* What a sample of SIDE counts. */
double sample_weight(const struct view_options *options, int side);

/* Of COUNT where what it is a part of isn't given: sqrt(n) samples. */
double count_error_alone(const struct view_options *options, int side, uint64_t count);

/* Samples a second that are PERIOD_NS apart: the whole number that the period was made of, if it
 * was. And back: in whole nanoseconds, 1 at least. */
double rate_of_period(uint64_t period_ns);
uint64_t period_of_rate(double rate);

/* What the counts are called: "samples" or "us". */
const char *unit_name(const struct view_options *options);

/* ---- view_progress.c: how far long work is, told on a terminal ---- */

/* Of WHAT, a word that stays valid; WHOLE 0: not known. */
void progress_begin(const char *what, uint64_t whole);

/* DONE of it: bytes where the whole is not known. */
void progress_step(uint64_t done);

/* Takes the line away. */
void progress_end(void);

/* ---- view_table.c: text that fits a terminal ---- */

/* Columns of the terminal: COLUMNS, or what the terminal on stdout says, or 80. At least 40. */
size_t table_width(void);

/*
 * Prints NAME, in at most ROOM columns (8 or more) unless options->wide, and ends the line. A long
 * name loses its middle, so that _[k] and _[i] at its end remain. Nothing in it can speak to the
 * terminal.
 */
void table_name(FILE *out, const char *name, size_t room, const struct view_options *options);

/* How many columns a number takes. */
size_t table_digits(uint64_t number);

#endif
