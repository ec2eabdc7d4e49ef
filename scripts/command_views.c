/*
 * The sub-commands that show profiles: which one is meant, its options, and its help. What they do
 * is in view_*.c.
 */
#include "command.h"
#include "views.h"

#include <getopt.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "nearest.h"

enum { ROWS_SHOWN = 20, ANY = INT_MAX };

/* The views, as bits: which options they take; and those that read profiles. */
enum {
    TOP = 1,
    TREE = 2,
    MERGE = 4,
    DIFF = 8,
    CONVERT = 16,
    FLAMEGRAPH = 32,
    LIST = 64,
    LIVE = 128,
    DOCTOR = 256,
};
enum { READERS = TOP | TREE | MERGE | DIFF | CONVERT | FLAMEGRAPH };

static const struct view {
    unsigned bit;
    const char *name;
    const char *arguments;
    const char *help;
    size_t files_min, files_max;
    void (*print)(struct view_options *options, char **files, size_t count);
} views[] = {
    {TOP, "top", "[options] FILE...",
     "Prints the functions that the CPU time went into. self: in the function itself; total: in "
     "it\n"
     "and in what it called; a function that calls itself counts once. _[k]: in the kernel;\n"
     "_[i]: inlined.\n\n"
     "+- is the standard error of a share p of n samples, sqrt(p (1 - p) / n), in points: what\n"
     "chance alone does. Shares that differ by less than two of these may as well be the same.\n"
     "Where counts are microseconds the file does not tell n. It is taken from --rate then.\n"
     "Samples are weights here, in periods of the rate; summaries, list and live count stacks.\n",
     1, ANY, view_top},
    {TREE, "tree", "[options] FILE...",
     "Prints who called whom: the share of the CPU time in each call and in what is under it\n"
     "(total), and in the function itself (self). +- is the standard error of total, as in top.\n"
     "[N] is the depth of calls too deep to indent.\n",
     1, ANY, view_tree},
    {MERGE, "merge", "[options] FILE...",
     "Writes one folded profile of many, each under a frame of its program: PROGRAM of a file\n"
     "selfsample.PROGRAM.PID.folded, else the file's name. Counts are summed up exactly. Views of\n"
     "the result in a pipe want --roots 2.\n",
     1, ANY, view_merge},
    {DIFF, "diff", "[options] BEFORE AFTER",
     "Prints the functions whose count changed most, or with --folded both counts of each stack,\n"
     "which flamegraph.pl makes a coloured picture of, as of difffolded.pl's.\n"
     "+- is the standard error of the change; ~ marks changes of less than two of these.\n",
     2, 2, view_diff},
    {CONVERT, "convert", "--to FORMAT [options] FILE...",
     "Writes the profile in another format.\n"
     "speedscope: JSON for https://www.speedscope.app, a profile for each thread.\n"
     "pprof: for `go tool pprof` and others; threads are labels, and so are the programs of\n"
     "several files; inlined functions are lines of one location. What a folded file does not\n"
     "say, what it counts and how often it was sampled, --unit us and --rate do.\n"
     "folded: of pprof files, the lines that flamegraph.pl reads.\n",
     1, ANY, view_convert},
    {FLAMEGRAPH, "flamegraph", "[options] FILE... > page.html",
     "Writes an HTML page that shows the profile as a flame graph: one file, which a browser (of\n"
     "2024 or later) opens without a network. Several files stand under frames of their programs.\n"
     "--diff: of two files, BEFORE and AFTER; widths are AFTER's, colours tell whose share of\n"
     "the CPU time grew (red) or shrank (blue).\n",
     1, ANY, view_flamegraph},
    {LIST, "list", "",
     "Prints the running processes that are being profiled: since when, the CPU time and the\n"
     "stacks so far (as of a second ago at the most), and the file that the profile will go to.\n",
     0, 0, view_list},
    {LIVE, "live", "[options] PID|PROGRAM",
     "Shows what a running, profiled process spends its CPU time on: what `selfsample top` would\n"
     "say of the last interval, and of all so far. In a pipe one table follows another. The\n"
     "process itself gets no signal. Keys: q or ctrl-C quits; space: last interval or all; t:\n"
     "functions by thread; s: by self or total. When the process ends its last top is printed.\n",
     1, 1, view_live},
    {DOCTOR, "doctor", "[PROGRAM [ARGUMENT...]]",
     "Says what this machine allows, by asking the kernel and by a trial run, and what PROGRAM's\n"
     "file allows: ok, limited (the profile has less in it) or no (there is no profile), and\n"
     "behind -> what gives more. Exit status 1 where a line says no, else 0.\n"
     "PROGRAM is not run, so its arguments, as of a run, change nothing.\n",
     0, ANY, view_doctor},
};

enum {
    VIEWS = sizeof views / sizeof views[0],
    OPTION_ROWS = 1000, /* beyond all letters */
    OPTION_SORT,
    OPTION_ROOTS,
    OPTION_CUT,
    OPTION_ROOT,
    OPTION_FOLDED,
    OPTION_NORMALISED,
    OPTION_FORMAT,
    OPTION_DIFFERENCE,
    OPTION_SUM,
    OPTION_TITLE,
    OPTION_COUNT,
    OPTION_BY_THREAD,
};

static const struct view_option {
    unsigned views;
    int found;   /* what the switch over options calls it */
    char letter; /* 0: none */
    const char *option;
    const char *argument; /* NULL: none */
    const char *help;
} rows[] = {
    {TOP, OPTION_ROWS, 'n', "rows", "N", "lines to show (default 20; 0: all)"},
    {DIFF, OPTION_ROWS, 0, "rows", "N", "lines to show (default 20; 0: all)"},
    {LIVE, OPTION_ROWS, 'n', "rows", "N", "lines to show (default: as many as fit; 20 in a pipe)"},
    {LIVE, 'i', 'i', "interval", "SECONDS", "between two tables (default 1)"},
    {LIVE, OPTION_COUNT, 0, "count", "N", "end after N tables"},
    {LIVE, 'a', 'a', "all", NULL, "begin with all so far, not the last interval"},
    {TOP | LIVE, OPTION_BY_THREAD, 'b', "by-thread", NULL, "functions of each thread apart"},
    {TOP | DIFF | LIVE, OPTION_SORT, 's', "sort", "self|total", "what counts (default self)"},
    {TREE | DIFF | FLAMEGRAPH, 'm', 'm', "merge-threads", NULL,
     "threads as one, without their names"},
    {TREE, OPTION_CUT, 'c', "cut", "PERCENT", "leave calls of a smaller total out (default 1%)"},
    {MERGE, OPTION_ROOT, 0, "root", "NAME", "frame to put in front of all ('': none)"},
    {DIFF, OPTION_FOLDED, 'f', "folded", NULL, "write stacks with two counts"},
    {DIFF, OPTION_NORMALISED, 'n', "normalise", NULL,
     "compare shares; --folded: scale BEFORE to AFTER's sum"},
    {CONVERT, OPTION_FORMAT, 0, "to", "FORMAT", "speedscope, pprof or folded"},
    {FLAMEGRAPH, OPTION_DIFFERENCE, 'd', "diff", NULL, "show what changed from BEFORE to AFTER"},
    {CONVERT | FLAMEGRAPH, OPTION_SUM, 0, "sum", NULL,
     "take several files as one, without frames of their\n"
     "programs: those of a series (%n) are of one"},
    {FLAMEGRAPH, OPTION_TITLE, 0, "title", "TEXT", "above the picture (default: of the file)"},
    {READERS | LIVE, 't', 't', "thread", "PATTERN", "only threads of such a name: 'worker*'"},
    {READERS, OPTION_ROOTS, 0, "roots", "N",
     "frames in front of functions (default: as the file\n"
     "says, or 1, the thread; 2: a merged profile)"},
    {READERS & ~MERGE, 'u', 'u', "unit", "UNIT",
     "what was recorded: samples, us (default: as the file\n"
     "says, or samples)"},
    {TOP | TREE | DIFF, 'r', 'r', "rate", "HZ",
     "with --unit us: samples per second (default: as the\n"
     "file says, or 999)"},
    {FLAMEGRAPH | CONVERT, 'r', 'r', "rate", "HZ",
     "samples per second (default: as the file says, or 999)"},
    {TOP | TREE | DIFF | LIVE, 'w', 'w', "wide", NULL, "do not shorten names"},
    {MERGE | DIFF | CONVERT | FLAMEGRAPH, 'o', 'o', "out", "FILE",
     "write there instead of to stdout"},
    {~0u, 'h', 'h', "help", NULL, "this"},
};

enum { ROWS = sizeof rows / sizeof rows[0] };

_Noreturn void view_fail(const char *format, ...)
{
    char line[PATH_MAX + 256];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    fflush(stdout);
    progress_end();
    tell("%s", line);
    exit(STATUS_FAILED);
}

_Noreturn static void print_help(const struct view *view)
{
    printf("usage: selfsample %s%s%s\n\n%s\n", view->name, view->arguments[0] ? " " : "",
           view->arguments, view->help);
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].views & view->bit) != 0)
            option_print(rows[i].letter, rows[i].option, rows[i].argument, rows[i].help);
    printf("\n%sA program of this name is run by\n`selfsample -- %s`.\n",
           (view->bit & READERS) != 0 ? "FILE is a folded profile, or one of pprof; - is stdin. "
                                      : "",
           view->name);
    exit(fflush(stdout) == 0 ? 0 : STATUS_FAILED);
}

_Noreturn static void usage(const struct view *view)
{
    view_fail("usage: selfsample %s%s%s; --help tells more; a program of this name is run by "
              "`selfsample -- %s`",
              view->name, view->arguments[0] ? " " : "", view->arguments, view->name);
}

/* getopt's tables, of the options that VIEW takes. Behind a program's name they are its own. */
static void rows_to_getopt(const struct view *view, struct option *options, char *letters)
{
    if (view->bit == DOCTOR)
        *letters++ = '+';
    for (size_t i = 0; i < ROWS; i++) {
        if ((rows[i].views & view->bit) == 0)
            continue;
        *options++ = (struct option){.name = rows[i].option,
                                     .has_arg = rows[i].argument ? required_argument : no_argument,
                                     .val = rows[i].found};
        if (rows[i].letter != 0)
            *letters++ = rows[i].letter;
        if (rows[i].letter != 0 && rows[i].argument != NULL)
            *letters++ = ':';
    }
    *options = (struct option){0};
    *letters = 0;
}

/* What getopt found for VIEW, as the rows name it: a letter may be another option in another view.
 */
static int found_of(const struct view *view, int found)
{
    for (size_t i = 0; i < ROWS; i++)
        if ((rows[i].views & view->bit) != 0 && rows[i].letter == found && found != 0)
            return rows[i].found;
    return found;
}

static double number_parse(const char *option, const char *text, double least, double most,
                           bool is_whole)
{
    char *end;
    double number = strtod(text, &end);
    if (strcmp(option, "cut") == 0 && *end == '%')
        end++;
    bool is_wrong = end == text || *end != 0 || !(number >= least && number <= most);
    if (is_wrong || (is_whole && number != (double)(size_t)number))
        view_fail("--%s %s: a %snumber from %.10g to %.10g is wanted", option, text,
                  is_whole ? "whole " : "", least, most);
    return number;
}

static double number_of(const char *option, const char *text, double least, double most)
{
    return number_parse(option, text, least, most, false);
}

static size_t count_of(const char *option, const char *text, double least, double most)
{
    return (size_t)number_parse(option, text, least, most, true);
}

/* Which of the two words TEXT is. */
static bool is_second(const char *option, const char *text, const char *first, const char *second)
{
    if (strcmp(text, first) != 0 && strcmp(text, second) != 0)
        view_fail("--%s %s: %s or %s is wanted", option, text, first, second);
    return strcmp(text, second) == 0;
}

/* What an option without a value sets; NULL: it is none of these. */
static bool *flag_of(struct view_options *options, int found)
{
    switch (found) {
    case OPTION_FOLDED:
        return &options->folded;
    case OPTION_NORMALISED:
        return &options->normalised;
    case OPTION_SUM:
        return &options->sum;
    case OPTION_DIFFERENCE:
        return &options->difference;
    case OPTION_BY_THREAD:
        return &options->by_thread;
    case 'a':
        return &options->all;
    case 'm':
        return &options->merge_threads;
    case 'w':
        return &options->wide;
    default:
        return NULL;
    }
}

/* What an option whose value is taken as it stands sets; NULL: it is none of these. */
static const char **text_of(struct view_options *options, int found)
{
    switch (found) {
    case OPTION_ROOT:
        return &options->root;
    case OPTION_FORMAT:
        return &options->format;
    case OPTION_TITLE:
        return &options->title;
    case 't':
        return &options->thread;
    case 'o':
        return &options->out;
    default:
        return NULL;
    }
}

static void option_set(const struct view *view, struct view_options *options, int found,
                       const char *value)
{
    bool *flag = flag_of(options, found);
    const char **text = text_of(options, found);
    if (flag != NULL || text != NULL) {
        if (flag != NULL)
            *flag = true;
        else
            *text = value;
        return;
    }
    switch (found) {
    case OPTION_ROWS:
        options->rows = count_of("rows", value, 0, 1e9);
        break;
    case OPTION_SORT:
        options->sort = is_second("sort", value, "self", "total") ? SORT_TOTAL : SORT_SELF;
        break;
    case OPTION_ROOTS:
        options->roots = count_of("roots", value, 0, 1000);
        options->roots_are_known = true;
        break;
    case OPTION_CUT:
        options->cut = number_of("cut", value, 0, 100) / 100;
        break;
    case OPTION_COUNT:
        options->count = count_of("count", value, 1, 1e9);
        break;
    case 'i':
        options->interval_s = number_of("interval", value, 0.1, 86400);
        break;
    case 'u':
        options->is_us = is_second("unit", value, "samples", "us");
        options->unit_is_known = options->unit_is_given = true;
        break;
    case 'r':
        options->rate = number_of("rate", value, 1, 1e9);
        options->rate_is_known = options->rate_is_given = true;
        break;
    case 'h':
        print_help(view);
    default: /* getopt has told */
        view_fail("`selfsample %s --help` tells the options", view->name);
    }
}

static bool is_format(const char *format)
{
    return strcmp(format, "speedscope") == 0 || strcmp(format, "pprof") == 0 ||
           strcmp(format, "folded") == 0;
}

/* What files there have to be. */
static void files_judge(const struct view *view, const struct view_options *options, size_t files)
{
    if (view->bit == DIFF && files > view->files_max)
        view_fail("diff: two files are wanted, BEFORE and AFTER, and %zu are given; %s", files,
                  options->normalised ? "-n is --normalise here, the lines to show are --rows N"
                                      : "`selfsample merge` makes one of many");
    if (files < view->files_min || files > view->files_max)
        usage(view);
}

/* What options, and files, say together. */
static void options_judge(const struct view *view, const struct view_options *options)
{
    if (view->bit == CONVERT && options->format == NULL)
        view_fail("convert: --to says the format: speedscope, pprof or folded");
    if (options->format != NULL && !is_format(options->format))
        view_fail("--to %s: speedscope, pprof or folded is wanted", options->format);
    if (options->thread != NULL && options->roots == 0)
        view_fail("--thread %s: with --roots 0 no frame is a thread", options->thread);
    if (options->by_thread && options->roots == 0)
        view_fail("--by-thread: with --roots 0 no frame is a thread");
    if (options->merge_threads && options->roots == 0)
        view_fail("--merge-threads: with --roots 0 no frame is a thread");
    for (const char *c = options->root; c != NULL && *c != 0; c++)
        if (*c == ';' || (unsigned char)*c < ' ' || *c == 127)
            view_fail("--root: the name of a frame has no ; and no control characters");
}

const struct view_options view_options_default = {
    .rows = ROWS_SHOWN, .interval_s = 1, .roots = 1, .rate = CONFIG_RATE_HZ, .cut = 0.01};

void view_stdout_finish(void)
{
    int error = view_stream_error(stdout);
    if (error != 0)
        view_fail("stdout: not all was written: %s", strerror(error));
}

_Noreturn void view_do(void (*view)(struct view_options *, char **, size_t),
                       struct view_options *options, char **files, size_t count)
{
    view(options, files, count);
    view_stdout_finish();
    exit(0);
}

/* ARGV: the view's name, and what follows it. */
_Noreturn static void view_run(const struct view *view, int argc, char **argv)
{
    struct view_options options = view_options_default;
    if (view->bit == LIVE)
        options.rows = 0;
    struct option table[ROWS + 1];
    char letters[2 * ROWS + 2], title[64];
    int found;
    snprintf(title, sizeof title, "selfsample %s", view->name);
    argv[0] = title;
    rows_to_getopt(view, table, letters);
    optind = 0;
    while ((found = getopt_long(argc, argv, letters, table, NULL)) != -1)
        option_set(view, &options, found_of(view, found), optarg);
    size_t files = (size_t)(argc - optind);
    files_judge(view, &options, files);
    if ((view->bit & READERS) != 0)
        view_facts_take(&options, argv + optind, files);
    options_judge(view, &options);
    view_do(view->print, &options, argv + optind, files);
}

const char *sub_command_nearest(const char *word)
{
    const char *words[VIEWS + 4] = {"snapshot", "pause", "resume", "inline"};
    for (size_t i = 0; i < VIEWS; i++)
        words[4 + i] = views[i].name;
    return nearest_word(word, words, VIEWS + 4);
}

void views_apply(int argc, char **argv)
{
    for (size_t i = 0; i < VIEWS && argc > 1; i++)
        if (strcmp(argv[1], views[i].name) == 0)
            view_run(&views[i], argc - 1, argv + 1);
}
