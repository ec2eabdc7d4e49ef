/* clang-format off */
/*
 * The parts of the `selfsample` command, which runs a program under the library and tells what
 * became of it. An ordinary program: one thread, libc, errno. Nothing here runs in the profiled app
 * but the few lines between fork and exec in command_program.c.
 *
 *     options -> program (fork, exec, signals) + reports (what the helpers say) -> summary -> status
 *
 * control, inline and views are other commands under the same name, for processes that run already
 * and for profiles that were written before.
 */
/* clang-format on */
#ifndef SELFSAMPLE_SCRIPTS_COMMAND_H
#define SELFSAMPLE_SCRIPTS_COMMAND_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "outpath.h"

/* Exit statuses of the command's own: of a run, as env(1), nice(1) and timeout(1) use them, and of
 * its other commands where they fail. */
enum {
    STATUS_FAILED = 1,
    STATUS_USAGE = 125,
    STATUS_NOT_EXECUTABLE = 126,
    STATUS_NOT_FOUND = 127,
};

/* Makes ? of all in TEXT that could speak to a terminal. Returns TEXT. */
char *terminal_clean(char *text);

/* One line on stderr behind "selfsample: ". Names and values in it can't speak to the terminal. */
void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- command_options.c: the command line ---- */

/* What is to be done after a run. */
struct after_run {
    bool top;         /* print the functions with the most time */
    const char *page; /* write a flame graph there; "": beside the largest profile; NULL: none */
};

/*
 * Turns the options in front of the program's name into SELFSAMPLE_* variables of this process, by
 * the library's own rules for their values. Returns the index of the program's name in ARGV. For
 * --help, --version and mistakes it ends the process.
 */
int options_apply(int argc, char **argv, struct after_run *after);

struct config;

/* The options as the library will find them. Mistakes in them it tells, not we. */
void options_of_environment(struct config *config);

/* Prints an option for --help. LETTER may be 0, ARGUMENT NULL, or "[=...]" where it may be left
 * out; HELP has one line or two. */
void option_print(char letter, const char *option, const char *argument, const char *help);

/* For a sub-command without other options: where `-h` or `--help` is all that it was given, prints
 * TEXT and ends the process. */
void help_if_asked(int argc, char **argv, const char *text);

/* ---- command_control.c: processes that are being profiled ---- */

/*
 * `snapshot`, `pause` and `resume`, of a process id, a profiled process's or its helper's, or of a
 * program's name: asks the helper and waits for its answer. A snapshot's file is printed on stdout.
 * Where the first word is another one: returns. Else ends the process: with 0, or with 1 after a
 * line that says why not.
 */
void control_apply(int argc, char **argv);

/* ---- command_process.c: what /proc tells of a process ---- */

struct process {
    char name[64];
    char state; /* R, S, Z ... */
    pid_t parent;
    long threads;
    int end_signal;       /* that its parent gets */
    uint64_t start_ticks; /* since the system's start */
};

/* False where there is no such process. */
bool process_read(pid_t pid, struct process *process);

/* ---- command_views.c: profiles, shown ---- */

/*
 * `top`, `tree`, `merge`, `diff` and `convert` with their options and files: prints what is asked
 * for and ends the process, with 1 after a line that says why not. Any other command line: returns.
 */
void views_apply(int argc, char **argv);

/* The sub-command of any kind that WORD may have been meant to be; NULL: none. */
const char *sub_command_nearest(const char *word);

/* ---- command_after.c: what is done at the end of a run ---- */

struct reports;

/* Will there be a page? Not where this command was built without it. */
bool after_makes_page(const struct after_run *after);

/* Ends the process with a line where it can't be done. */
void after_judge(const struct after_run *after);

enum { RUN_OPTIONS = 3, RUN_OPTION_BYTES = 24 };

/* What a view of this run's files has to be told of how they were recorded: options, into OPTIONS.
 * Returns how many; what is so anyway is not among them. */
size_t run_options(const struct reports *reports, char options[RUN_OPTIONS][RUN_OPTION_BYTES]);

/* Does it, with all files of the run of PROGRAM, if there are any; tells on stderr what was done.
 */
void after_do(const struct after_run *after, const struct reports *reports, const char *program);

/* ---- command_place.c: where files will lie ---- */

/* The directory of the profiles, with a slash at its end; "": the one where the program is started.
 * False where it is known to each process alone. */
bool out_directory_find(char directory[OUTPATH_BYTES]);

/* These end the process with a line where no profile can be written, or PAGE can't. BY_OPTION: the
 * place is one that --out said. */
void out_place_judge(bool by_option);
void page_place_judge(const char *page);

/* ---- command_library.c: where the library is ---- */

/* Puts the library in front of LD_PRELOAD. On failure tells why and returns -1. */
int library_preload(void);

/* Where NAME lies that was installed with this command: in one of the directories BESIDE (a NULL
 * ends them), behind its own, or in INSTALLED, in PATH of PATH_MAX. False where access with MODE
 * fails. */
bool installed_find(const char *name, const char *const *beside, const char *installed, int mode,
                    char *path, size_t size);

/* The file that execvp would run for PROGRAM. False where there is none. */
bool path_search(const char *program, char *found, size_t size);

/* ---- command_absence.c: programs without a profile ---- */

/* Why the library said nothing from PROGRAM (looked up in PATH): a clause for the summary, valid
 * until the next call. */
const char *library_absence_reason(const char *program);

/* What in the file at PATH, a program or a script, keeps the library out: a clause, valid until the
 * next call; NULL: nothing. */
const char *program_refusal(const char *path);

/* The interpreter that the file at PATH names in its first line, by itself or through env. False:
 * it is no script. */
bool interpreter_of(const char *path, char *found, size_t size);

/* ---- command_reports.c: what the helpers tell ---- */

/* One start of the library: a process, or one image of it where it calls exec. */
struct report {
    pid_t pid;
    bool ended;
    size_t next_open;     /* one more than the index of the next that has not ended; 0: none */
    uint64_t start_ticks; /* of the process; 0: it was gone */
    char program[64];
    uint64_t samples, lost, whole, truncated, uncovered, thinned, throttled;
    uint64_t rate_hz; /* that was had: one count of a file is a period of it */
    uint64_t cpu_seen_ns, cpu_clock_ns, kernel_ns, switched_ns, helper_cpu_ns, own_ns;
    char engine[256];
    bool too_short; /* less CPU time than one period: no file is meant to be */
    bool kernel_frames;
    char kernel_reason[256]; /* why there are none, or none with names; "": none given */
    char *error;             /* NULL: none. Both are allocated with the report */
    char *file;              /* NULL: none written; of a series the last */
    char **parts;            /* the files of a series, in order; each is allocated */
    size_t part_count;       /* 0: it is none */
};

struct reports {
    char directory[PATH_MAX]; /* holds the FIFO alone; removed by reports_close */
    int read_fd;
    int write_fd;      /* held so that no end of file shows while the program runs */
    char buffer[8192]; /* a line that has not come whole */
    size_t buffered;
    struct report *list;
    size_t count, room;
    size_t first_open, last_open; /* as next_open, in the order in which they began */
    uint64_t dropped;             /* beyond REPORTS_MAX */
    long began_ms, ended_ms;      /* the run, by the monotonic clock */
    uint64_t run_cpu_ns;          /* CPU time of all processes that were waited for */
};

enum { REPORTS_MAX = 200000 };

/* Makes the FIFO and names it in the environment. 0, or -1 and a line that tells why. */
int reports_open(struct reports *reports);

/* Takes in all that has been written so far. Returns false once nobody can write any more. */
bool reports_drain(struct reports *reports);

/*
 * After the program's end: waits for the helpers that are still writing, but not for processes that
 * live on by themselves. At most 10 s; at most 0.15 s where none has begun, and 0.2 s for one that
 * is yet to begin.
 */
void reports_wait(struct reports *reports);

/* How many have begun, not ended, and still run as processes. */
size_t reports_running(const struct reports *reports);

/* Has the process PID begun, and not ended? */
bool reports_is_open(const struct reports *reports, pid_t pid);

void reports_close(struct reports *reports);

/* ---- command_orphans.c: what a run leaves running ---- */

/* Does a process of the run live that has not begun a report, or has ended its last one? One that
 * nobody profiles is such a process too. */
bool orphan_is_there(const struct reports *reports);

/* ---- command_series.c: the files of a process ---- */

/* PATH has been written for the series of REPORT; it may be its last once more. */
void report_add_part(struct report *report, const char *path);

/* All files of REPORT. Returns how many. */
size_t report_files(const struct report *report, char *const **files);

/* The same as a word of the shell, seen from here: of a series with a * where they differ. There
 * has to be a file. */
void report_word(const struct report *report, char *word, size_t size);

/* ---- command_inline.c: inlined functions, in files that are finished ---- */

/*
 * `inline FILE...`: puts them into these and ends the process, with 1 if one could not be done. Any
 * other command line: returns.
 */
void inline_apply(int argc, char **argv);

/* Puts them into the files of all reports that came with what it takes. What fails is told. */
void inline_reports(const struct reports *reports);

/* ---- command_program.c: the program itself ---- */

/*
 * Runs ARGV (its first word looked up in PATH) to its end, taking in reports meanwhile. Signals
 * sent to the command are passed on; it stops and goes on with the program. Returns the status as
 * waitpid gives it, or -1 where the program could not be run (told; *EXIT_STATUS is what to exit
 * with).
 */
int program_run(char **argv, struct reports *reports, int *exit_status);

/* Ends this process as the program ended by STATUS (of waitpid): same code or same signal. */
_Noreturn void program_end_like(int status);

/* ---- command_summary.c: what stands on stderr at the end ---- */

/* With PICTURE_HINT also the command that makes a picture of the largest profile. */
void summary_tell(const struct reports *reports, const char *program, bool picture_hint);

/* NAME as a word of the shell. */
void shell_word(const char *name, char *quoted, size_t size);

/* PATH as one would type it from here; valid until the next call. */
const char *path_from_here(const char *path);

#endif
