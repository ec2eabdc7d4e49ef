/*
 * What is done with the files of a run at its end: a table, a page. Each is made by the sub-command
 * of its name, in a child of its own, which may end as it likes: the exit status of the command is
 * the program's.
 */
#include "command.h"
#include "views.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "config.h"
#include "outpath.h"

enum { NAMES_TRIED = 1000 };

/* What the run was recorded with. */
static const struct config *run_config(void)
{
    static struct config config;
    options_of_environment(&config);
    return &config;
}

/* The rate of the process with the most samples; 0: there is none. */
static uint64_t rate_of(const struct reports *reports)
{
    const struct report *most = NULL;
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        if (report->file != NULL && (most == NULL || report->samples > most->samples))
            most = report;
    }
    return most != NULL ? most->rate_hz : 0;
}

size_t run_options(const struct reports *reports, char options[RUN_OPTIONS][RUN_OPTION_BYTES])
{
    const struct config *config = run_config();
    uint64_t rate_hz = rate_of(reports);
    size_t count = 0;
    if (config->threads == CONFIG_THREADS_NONE)
        snprintf(options[count++], RUN_OPTION_BYTES, "--roots=0");
    if (config->unit == CONFIG_UNIT_US)
        snprintf(options[count++], RUN_OPTION_BYTES, "--unit=us");
    if (config->format == CONFIG_FORMAT_FOLDED && rate_hz > 0 && rate_hz != CONFIG_RATE_HZ)
        snprintf(options[count++], RUN_OPTION_BYTES, "--rate=%u", (unsigned)rate_hz);
    return count;
}

/* Counts of different rates are no sum, unless the files say themselves what theirs are: whose they
 * are taken for. */
static void rates_judge(const struct reports *reports)
{
    const struct config *config = run_config();
    uint64_t rate_hz = rate_of(reports);
    if (config->format != CONFIG_FORMAT_FOLDED || config->unit != CONFIG_UNIT_SAMPLES)
        return;
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        if (report->file == NULL || report->rate_hz == rate_hz ||
            view_facts_are_there(report->file))
            continue;
        tell("processes were sampled at different rates: what follows takes all counts for those "
             "of %u Hz, and is wrong by that of %s (%u Hz); with --unit=us it would be right",
             (unsigned)rate_hz, report->program, (unsigned)report->rate_hz);
        return;
    }
}

static size_t files_count(const struct reports *reports)
{
    char *const *files;
    size_t count = 0;
    for (size_t i = 0; i < reports->count; i++)
        count += report_files(&reports->list[i], &files);
    return count;
}

/* What has to be said of counts that this run's options made. */
static struct view_options view_options_of(const struct reports *reports)
{
    const struct config *config = run_config();
    uint64_t rate_hz = rate_of(reports);
    struct view_options options = view_options_default;
    options.roots = config->threads != CONFIG_THREADS_NONE;
    options.is_us = config->unit == CONFIG_UNIT_US;
    if (config->format == CONFIG_FORMAT_FOLDED && rate_hz > 0) {
        options.rate = (double)rate_hz;
        options.rate_is_known = true;
    }
    return options;
}

/* All files of a run, and which program each is of. They live as long as this process. */
struct files {
    char **paths;
    const char **programs;
    size_t count;
};

static struct files files_of(const struct reports *reports)
{
    struct files files = {0};
    size_t most = files_count(reports), gone = 0;
    files.paths = memory_or_end(calloc(most + 1, sizeof *files.paths));
    files.programs = memory_or_end(calloc(most + 1, sizeof *files.programs));
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        char *const *paths;
        size_t count = report_files(report, &paths);
        for (size_t part = 0; part < count; part++) {
            if (report->part_count > 0 && access(paths[part], F_OK) != 0) {
                gone++;
                continue;
            }
            files.programs[files.count] = report->program;
            files.paths[files.count++] = paths[part];
        }
    }
    if (gone != 0)
        tell("%zu files of series are gone: what follows is without them", gone);
    return files;
}

/* Did all files of the run come from one process? */
static bool is_one_process(const struct reports *reports)
{
    size_t count = 0;
    for (size_t i = 0; i < reports->count; i++)
        count += reports->list[i].file != NULL;
    return count == 1;
}

/* The file of a run with the most samples, the first of those; NULL where there is none. */
static const char *file_largest(const struct reports *reports)
{
    const struct report *largest = NULL;
    for (size_t i = 0; i < reports->count; i++) {
        const struct report *report = &reports->list[i];
        if (report->file != NULL && (largest == NULL || report->samples > largest->samples))
            largest = report;
    }
    return largest != NULL ? largest->file : NULL;
}

/* Runs a view, with stderr as its output. True where it did what it should. */
static bool view_in_child(void (*view)(struct view_options *, char **, size_t),
                          struct view_options *options, const struct files *files)
{
    sigset_t none;
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        if (dup2(STDERR_FILENO, STDOUT_FILENO) < 0)
            _exit(EXIT_FAILURE);
        options->programs = files->programs;
        view_do(view, options, files->paths, files->count);
    }
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return pid > 0 && status == 0;
}

static void top_show(const struct reports *reports, const struct files *files)
{
    struct view_options options = view_options_of(reports);
    view_in_child(view_top, &options, files);
}

/* The length of a profile's name without its ending. */
static size_t stem_bytes(const char *profile)
{
    static const char *const endings[] = {OUTPATH_FOLDED, OUTPATH_PPROF};
    size_t length = strlen(profile);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t ending = strlen(endings[i]);
        if (length > ending && strcmp(profile + length - ending, endings[i]) == 0)
            return length - ending;
    }
    return length;
}

/* Makes an empty file beside PROFILE: NAME.html for NAME.folded, NAME.1.html if that is there.
 * Returns its name, or NULL where it can't be made, which is told. */
static char *page_make(const char *profile)
{
    int length = (int)stem_bytes(profile);
    for (int number = 0; number < NAMES_TRIED; number++) {
        char *page, text[16] = "";
        if (number > 0)
            snprintf(text, sizeof text, ".%d", number);
        if (asprintf(&page, "%.*s%s.html", length, profile, text) < 0)
            memory_or_end(NULL);
        int fd = open(page, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            close(fd);
            return page;
        }
        if (errno != EEXIST) {
            tell("%s: %s", page, strerror(errno));
            return NULL;
        }
        free(page);
    }
    tell("%.*s.html: it is there, and so are all names like it", length, profile);
    return NULL;
}

/* PAGE is what the option said; empty: beside the largest profile. */
static void page_show(const struct reports *reports, const struct files *files, const char *page,
                      const char *program)
{
    const char *slash = strrchr(program, '/');
    bool is_own = page[0] == 0;
    if (is_own && (page = page_make(file_largest(reports))) == NULL)
        return;
    struct view_options options = view_options_of(reports);
    options.title = slash ? slash + 1 : program;
    options.out = page;
    options.sum = is_one_process(reports);
    if (view_in_child(view_flamegraph, &options, files))
        tell("flame graph: %s (open it in a browser)", path_from_here(page));
    else if (is_own)
        unlink(page);
}

bool after_makes_page(const struct after_run *after)
{
    return after->page != NULL && page_find().head != NULL;
}

void after_judge(const struct after_run *after)
{
    if (after_makes_page(after) && after->page[0] != 0)
        page_place_judge(after->page);
}

void after_do(const struct after_run *after, const struct reports *reports, const char *program)
{
    bool wanted = after->top || after->page != NULL;
    if (file_largest(reports) == NULL) {
        if (wanted)
            tell("no %s%s%s: there is no profile", after->top ? "table" : "",
                 after->top && after->page != NULL ? ", no " : "",
                 after->page != NULL ? "flame graph" : "");
        return;
    }
    if (!wanted)
        return;
    rates_judge(reports);
    const struct files files = files_of(reports);
    if (after->top)
        top_show(reports, &files);
    if (after_makes_page(after))
        page_show(reports, &files, after->page, program);
    else if (after->page != NULL)
        tell("no flame graph: %s", PAGE_IS_MISSING);
}
