/*
 * The command line. Each option is one of the library's variables under another name; the library's
 * own reader judges the values, so that there is one set of rules.
 */
#include "command.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "engine.h"
#include "outpath.h"

static const struct option_row {
    const char *option;
    char letter; /* 0: none */
    const char *variable;
    const char *value;    /* what an option without an argument stands for; NULL: it takes one */
    const char *argument; /* for --help; with a value before it, it may be left out */
    const char *help;
} rows[] = {
    {"out", 'o', "SELFSAMPLE_OUT", NULL, "PATTERN",
     "files to write; %p pid, %e program, %h host, %t time, %n counter\n"
     "(default " OUTPATH_DEFAULT OUTPATH_FOLDED "; DIR puts them there)"},
    {"format", 'f', "SELFSAMPLE_FORMAT", NULL, "FORMAT",
     "of the files: folded, pprof (default: pprof where\n"
     "PATTERN ends in " OUTPATH_PPROF ", else folded)"},
    {"rate", 'r', "SELFSAMPLE_RATE", NULL, "HZ", "samples per second of CPU time (default 999)"},
    {"stack", 's', "SELFSAMPLE_STACK", NULL, "BYTES",
     "of stack copied, up to 65528 (default automatic)"},
    {"engine", 'e', "SELFSAMPLE_ENGINE", NULL, "WHICH",
     "of the samples: auto (default), perf events, or timer"},
    {"kernel", 'k', "SELFSAMPLE_KERNEL", NULL, "WHEN", "kernel frames: auto (default), yes, no"},
    {"threads", 't', "SELFSAMPLE_THREADS", NULL, "HOW", "first frame: name (default), tid, none"},
    {"unit", 'u', "SELFSAMPLE_UNIT", NULL, "UNIT", "of the counts: samples (default), us"},
    {"only", 0, "SELFSAMPLE_ONLY", NULL, "PATTERNS", "programs of the tree to profile: 'cc1*,ld'"},
    {"children", 0, "SELFSAMPLE_CHILDREN", "yes", "[=yes|no]",
     "profile child processes too (default)"},
    {"no-children", 0, "SELFSAMPLE_CHILDREN", "no", NULL, "only the program itself"},
    {"inline", 'i', "SELFSAMPLE_INLINE", "yes", NULL,
     "show inlined functions too, where there is debug information"},
    {"checkpoint", 'c', "SELFSAMPLE_CHECKPOINT", NULL, "SECONDS",
     "write the file again every so often"},
};

enum { ROWS = sizeof rows / sizeof rows[0], HELP = 1000, TOP, PAGE, VERSION };

void option_print(char letter, const char *option, const char *argument, const char *help)
{
    char left[64], letter_text[8] = "    ";
    if (letter != 0)
        snprintf(letter_text, sizeof letter_text, "-%c, ", letter);
    const char *between = argument == NULL || argument[0] == '[' ? "" : " ";
    snprintf(left, sizeof left, "  %s--%s%s%s", letter_text, option, between,
             argument ? argument : "");
    const char *rest = strchr(help, '\n');
    printf("%-26s %.*s\n", left, (int)strcspn(help, "\n"), help);
    if (rest != NULL)
        printf("%-26s %s\n", "", rest + 1);
}

_Noreturn static void print_help(void)
{
    printf(
        "usage: selfsample [options] [--] program [arguments]\n"
        "       selfsample doctor [PROGRAM [ARGUMENT...]]\n"
        "       selfsample list\n"
        "       selfsample live [options] PID|PROGRAM\n"
        "       selfsample snapshot|pause|resume PID|PROGRAM\n"
        "       selfsample inline FILE...\n"
        "       selfsample top|tree|merge|diff|convert|flamegraph [options] FILE...\n\n"
        "Profiles the program and its children from inside and leaves folded stacks, ready for a\n"
        "flame graph. Exit status and signals are the program's own.\n\n");
    for (size_t i = 0; i < ROWS; i++)
        option_print(rows[i].letter, rows[i].option, rows[i].argument, rows[i].help);
    option_print(0, "top", NULL, "print the functions with the most time at the end");
    option_print(0, "flamegraph", "[=PAGE]",
                 "write a flame graph at the end, an HTML page\n"
                 "(default: beside the largest profile)");
    printf(
        "  -h, --help\n  -V, --version\n\n"
        "doctor says what this machine and PROGRAM allow. list shows the processes that are\n"
        "being profiled, live what one of them is at. snapshot writes its profile so far, and\n"
        "prints the name of the file; pause and resume leave time out of it. inline puts inlined\n"
        "functions into files that were written with SELFSAMPLE_INLINE=yes. The others show\n"
        "files. Each has a --help. A program of such a name is run by `selfsample -- NAME`.\n\n"
        "Each option sets the variable SELFSAMPLE_* of its name; see selfsample(1).\n");
    exit(fflush(stdout) == 0 ? 0 : STATUS_USAGE);
}

void help_if_asked(int argc, char **argv, const char *text)
{
    if (argc != 3 || (strcmp(argv[2], "--help") != 0 && strcmp(argv[2], "-h") != 0))
        return;
    fputs(text, stdout);
    option_print('h', "help", NULL, "this");
    exit(fflush(stdout) == 0 ? 0 : STATUS_FAILED);
}

/* MORE: a clause. */
_Noreturn static void usage(const char *more)
{
    fprintf(stderr, "usage: selfsample [options] [--] program [arguments]; --help tells more%s\n",
            more);
    exit(STATUS_USAGE);
}

/* getopt's tables out of ours. */
static void rows_to_getopt(struct option *options, char *letters)
{
    *letters++ = '+'; /* the first word that is no option is the program */
    for (size_t i = 0; i < ROWS; i++) {
        options[i] = (struct option){.name = rows[i].option,
                                     .has_arg = !rows[i].value     ? required_argument
                                                : rows[i].argument ? optional_argument
                                                                   : no_argument,
                                     .val = (int)i + 1 + VERSION};
        if (rows[i].letter) {
            *letters++ = rows[i].letter;
            if (rows[i].value == NULL)
                *letters++ = ':';
        }
    }
    options[ROWS] = (struct option){.name = "help", .val = HELP};
    options[ROWS + 1] = (struct option){.name = "version", .val = VERSION};
    options[ROWS + 2] = (struct option){.name = "top", .val = TOP};
    options[ROWS + 3] =
        (struct option){.name = "flamegraph", .has_arg = optional_argument, .val = PAGE};
    options[ROWS + 4] = (struct option){0};
    strcpy(letters, "hV");
}

static const struct option_row *row_of(int found)
{
    for (size_t i = 0; i < ROWS; i++)
        if (found == (int)i + 1 + VERSION || (found == rows[i].letter && found != 0))
            return &rows[i];
    return NULL;
}

/*
 * A line of the library's about the variable of an option, which CONTEXT is: told of the option.
 * Its last clause says what the library does then: the command does something else.
 */
_Noreturn static void refuse_value(void *context, const char *line)
{
    const struct option_row *row = context;
    const char *variable = strstr(line, row->variable);
    const char *what = variable != NULL ? variable + strlen(row->variable) : line;
    const char *clause = strrchr(what, ';');
    int length = clause != NULL ? (int)(clause - what) : (int)strlen(what);
    if (*what == '=' && row->value == NULL) /* as a word of its own */
        tell("--%s %.*s; the program was not run", row->option, length - 1, what + 1);
    else
        tell("--%s%.*s; the program was not run", row->option, length, what);
    exit(STATUS_USAGE);
}

static void say_nothing(void *context, const char *line)
{
    (void)context;
    (void)line;
}

void options_of_environment(struct config *config)
{
    config_read(config, environ, say_nothing, NULL);
}

/* Sets the variable of an option, and asks the library's reader what it would make of it. */
static void variable_set(const struct option_row *row, const char *value)
{
    const char *variable = row->variable;
    char *assignment;
    static struct config config;
    if (setenv(variable, value, 1) != 0 || asprintf(&assignment, "%s=%s", variable, value) < 0) {
        tell("%s: %s", variable, strerror(errno));
        exit(STATUS_USAGE);
    }
    config_read(&config, (char *const[]){assignment, NULL}, refuse_value, (void *)row);
    free(assignment);
}

/* The command's user gets a wrong placeholder refused, which the library would keep. */
static void out_judge(const struct option_row *row, const char *out)
{
    static char names[OUTPATH_BYTES];
    const struct outpath_facts facts = {
        .program = "", .host = "", .ending = "", .environment = environ};
    struct text text = text_over(names, sizeof names);
    outpath_expand(&text, out, &facts, refuse_value, (void *)row);
}

/*
 * Processes of the tree may work in other directories. The command's user means the directory where
 * the command was started, so a relative pattern gets it in front.
 */
static void out_anchor(void)
{
    char here[PATH_MAX / 2], pattern[PATH_MAX];
    const char *out = getenv("SELFSAMPLE_OUT");
    if (out == NULL)
        out = ""; /* of the pattern there will be left a directory: the default name in it */
    if (out[0] == '/' || strncmp(out, "%{", 2) == 0 || getcwd(here, sizeof here) == NULL)
        return;
    size_t used = 0;
    for (const char *c = here; *c != 0 && used + 3 < sizeof pattern; c++) {
        pattern[used++] = *c;
        if (*c == '%')
            pattern[used++] = '%';
    }
    int rest = snprintf(pattern + used, sizeof pattern - used, "%s%s", used == 1 ? "" : "/", out);
    if (used + (size_t)rest < CONFIG_OUT_BYTES)
        setenv("SELFSAMPLE_OUT", pattern, 1);
}

static void rate_judge(const struct config *config)
{
    char had[16];
    unsigned limit_hz = engine_rate_limit_hz();
    if (config->rate_hz <= limit_hz)
        return;
    tell("--rate %u: more than the program could bear, or than kernel.perf_event_max_sample_rate; "
         "%u samples per second are used",
         config->rate_hz, limit_hz);
    snprintf(had, sizeof had, "%u", limit_hz);
    setenv("SELFSAMPLE_RATE", had, 1);
}

static void kernel_judge(const struct config *config)
{
    struct event_traits traits;
    if (config->kernel != CONFIG_KERNEL_YES || config->engine == CONFIG_ENGINE_TIMER ||
        event_probe(&traits, true) != 0 || traits.kernel_frames)
        return;
    tell("--kernel yes: the kernel refuses kernel samples; user stacks alone are sampled; "
         "`selfsample doctor` says what would allow them");
    setenv("SELFSAMPLE_KERNEL", "auto", 1);
}

/* What the system does not give of the GIVEN options, and what these say together. Here rather than
 * in the library, where each process of the tree would tell it, and of the variable. */
static void options_judge(const bool *given)
{
    static struct config config;
    options_of_environment(&config);
    if (given['r'])
        rate_judge(&config);
    if (given['k'])
        kernel_judge(&config);
    if (!config.inlined || config_has_places(&config))
        return;
    tell("%s: not with pprof files; make a folded profile, and convert it; the program was not run",
         given['i'] ? "--inline" : "SELFSAMPLE_INLINE=yes");
    exit(STATUS_USAGE);
}

int options_apply(int argc, char **argv, struct after_run *after)
{
    struct option options[ROWS + 5];
    char letters[2 * ROWS + 4];
    static char own[] = "selfsample";
    bool given[UCHAR_MAX + 1] = {0}; /* by their letters */
    int found;

    argv[0] = own; /* as getopt calls us */
    rows_to_getopt(options, letters);
    while ((found = getopt_long(argc, argv, letters, options, NULL)) != -1) {
        const struct option_row *row = row_of(found);
        if (row != NULL) {
            const char *value = optarg ? optarg : row->value;
            variable_set(row, value);
            given[(unsigned char)row->letter] = true;
            if (row->letter == 'o')
                out_judge(row, value);
        } else if (found == TOP) {
            after->top = true;
        } else if (found == PAGE) {
            after->page = optarg ? optarg : "";
        } else if (found == 'h' || found == HELP) {
            print_help();
        } else if (found == 'V' || found == VERSION) {
            printf("selfsample %s\n", SELFSAMPLE_VERSION);
            exit(fflush(stdout) == 0 ? 0 : STATUS_USAGE);
        } else {
            usage("; the program was not run"); /* getopt has told why */
        }
    }
    if (optind == argc)
        usage("");
    options_judge(given);
    out_place_judge(given['o']);
    out_anchor();
    return optind;
}
