/* What the command tells at the end: a few lines on stderr, each behind "selfsample: ". */
#include "command.h"
#include "views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"

enum {
    FILES_TOLD = 5,
    PICTURE_FILES = 4,    /* in the command for one */
    EXPLAINED_MS = 200,   /* less time than this needs no explanation */
    BRIEF_NS = 10000000,  /* less than this is told in milliseconds */
    SWITCHES_PERCENT = 5, /* of the CPU time: as much as this is worth a line */
};

/* Of the whole process tree. Processes too short for a file are counted apart from all the rest,
 * so that the figures are those of the files. */
struct totals {
    size_t processes, too_short, files, errors, without_kernel;
    uint64_t too_short_ns; /* their CPU time */
    /* Reaped before their clocks were read: how many of the processes, and what was seen of them.
     */
    size_t without_clock;
    uint64_t without_clock_ns;
    uint64_t samples, lost, whole, truncated, uncovered, thinned, throttled;
    uint64_t cpu_seen_ns, cpu_clock_ns, kernel_ns, switched_ns, helper_cpu_ns, own_ns;
    uint64_t rate_hz;          /* of the first process */
    bool rates_differ;         /* from that */
    const char *engine;        /* of all processes, or "mixed" */
    const char *kernel_reason; /* the first reason why one has no kernel frames or names */
    const char *error;         /* the first */
};

static void totals_add(struct totals *totals, const struct report *report)
{
    totals->helper_cpu_ns += report->helper_cpu_ns;
    if (report->too_short) {
        totals->too_short++;
        totals->too_short_ns += report->cpu_clock_ns;
        return;
    }
    totals->processes++;
    totals->samples += report->samples;
    totals->lost += report->lost;
    totals->whole += report->whole;
    totals->truncated += report->truncated;
    totals->uncovered += report->uncovered;
    totals->thinned += report->thinned;
    totals->throttled += report->throttled;
    totals->own_ns += report->own_ns;
    totals->cpu_seen_ns += report->cpu_seen_ns;
    totals->cpu_clock_ns += report->cpu_clock_ns;
    totals->without_clock += report->cpu_clock_ns == 0;
    totals->without_clock_ns += report->cpu_clock_ns == 0 ? report->cpu_seen_ns : 0;
    totals->kernel_ns += report->kernel_ns;
    totals->switched_ns += report->switched_ns;
    totals->files += report->file != NULL;
    totals->errors += report->error != NULL;
    totals->without_kernel += !report->kernel_frames;
    if (totals->rate_hz == 0)
        totals->rate_hz = report->rate_hz;
    totals->rates_differ |= totals->rate_hz != report->rate_hz;
    if (totals->error == NULL)
        totals->error = report->error;
    if (totals->engine == NULL || totals->engine[0] == 0)
        totals->engine = report->engine;
    else if (report->engine[0] != 0 && strcmp(totals->engine, report->engine) != 0)
        totals->engine = "mixed";
    if (totals->kernel_reason == NULL && report->kernel_reason[0] != 0)
        totals->kernel_reason = report->kernel_reason;
}

static struct totals totals_of(const struct reports *reports)
{
    struct totals totals = {0};
    for (size_t i = 0; i < reports->count; i++)
        if (reports->list[i].ended)
            totals_add(&totals, &reports->list[i]);
    return totals;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 100.0;
}

static const char *processes(uint64_t count)
{
    return count == 1 ? "process" : "processes";
}

/* What was recorded. The counts of files, which views call samples, weigh them. */
static const char *stacks(uint64_t count)
{
    return count == 1 ? "stack" : "stacks";
}

static void tell_means(const struct totals *totals)
{
    bool all = totals->without_kernel == 0;
    const char *frames = all ? "yes" : totals->without_kernel == totals->processes ? "no" : "some";
    const char *reason = totals->kernel_reason ? totals->kernel_reason : "";
    char rate[32] = "";
    if (totals->rate_hz != 0 && !totals->rates_differ)
        snprintf(rate, sizeof rate, " at %u Hz", (unsigned)totals->rate_hz);
    tell("engine: %s%s; kernel frames: %s%s%s%s; helpers' own CPU time: %.2f s, and "
         "%.2f s in the programs' threads",
         totals->engine, rate, frames, *reason ? " (" : "", reason, *reason ? ")" : "",
         (double)totals->helper_cpu_ns / 1e9, (double)totals->own_ns / 1e9);
    if (totals->kernel_ns != 0)
        tell("kernel time at least %.1f %% (stacks not visible)",
             share(totals->kernel_ns, totals->cpu_seen_ns));
}

/* How much of the programs' time was seen, by their own clocks: a clause. */
static void clocks_put(const struct totals *totals, char *clause, size_t size)
{
    bool brief = totals->cpu_clock_ns < BRIEF_NS && totals->without_clock_ns < BRIEF_NS;
    const char *unit = brief ? "ms" : "s";
    double unit_ns = brief ? 1e6 : 1e9;
    double clock = (double)totals->cpu_clock_ns / unit_ns;
    double seen = (double)totals->cpu_seen_ns / unit_ns;
    double percent = share(totals->cpu_seen_ns - totals->without_clock_ns, totals->cpu_clock_ns);
    if (totals->without_clock == 0)
        snprintf(clause, size, "%.2f %s of CPU time seen, %.1f %% of %.2f %s", seen, unit, percent,
                 clock, unit);
    else if (totals->cpu_clock_ns == 0)
        snprintf(clause, size,
                 "%.2f %s of CPU time seen; their clocks were gone too soon to compare", seen,
                 unit);
    else
        snprintf(clause, size,
                 "%.2f %s of CPU time seen, %.1f %% of %.2f %s but for %zu %s whose clock was gone",
                 seen, unit, percent, clock, unit, totals->without_clock,
                 processes(totals->without_clock));
}

/* What perf events cost where threads switch is the program's time, and can be had back. */
static void tell_switches(const struct totals *totals)
{
    double percent = share(totals->switched_ns, totals->cpu_seen_ns);
    if (totals->switched_ns != 0 && percent >= SWITCHES_PERCENT)
        tell("switches between threads: %.1f %% of the CPU time, part of it to stop and start perf "
             "events; --engine timer has none of that, but no kernel frames",
             percent);
}

static void tell_counts(const struct totals *totals)
{
    char clause[192];
    clocks_put(totals, clause, sizeof clause);
    tell("%" PRIu64 " %s recorded from %zu %s; %s", totals->samples, stacks(totals->samples),
         totals->processes, processes(totals->processes), clause);
    tell("stacks whole: %.1f %%, lost: %" PRIu64 "; threads not covered: %" PRIu64,
         share(totals->whole, totals->whole + totals->truncated), totals->lost, totals->uncovered);
    if (totals->thinned != 0)
        tell("short threads that others of their kind represent: %" PRIu64, totals->thinned);
    if (totals->throttled != 0)
        tell("times that the kernel throttled the sampling: %" PRIu64, totals->throttled);
    tell_means(totals);
}

const char *path_from_here(const char *path)
{
    static char here[PATH_MAX];
    size_t length = getcwd(here, sizeof here) != NULL ? strlen(here) : 0;
    if (length > 1 && strncmp(path, here, length) == 0 && path[length] == '/')
        return path + length + 1;
    return path;
}

static int by_samples(const void *left, const void *right)
{
    uint64_t a = (*(const struct report *const *)left)->samples;
    uint64_t b = (*(const struct report *const *)right)->samples;
    return a < b ? 1 : a > b ? -1 : 0;
}

/* Those that wrote a file, the one with the most samples first. The caller frees the list. */
static const struct report **reports_with_files(const struct reports *reports, size_t *count)
{
    const struct report **list = calloc(reports->count + 1, sizeof *list);
    *count = 0;
    if (list == NULL)
        return NULL;
    for (size_t i = 0; i < reports->count; i++)
        if (reports->list[i].file != NULL)
            list[(*count)++] = &reports->list[i];
    qsort(list, *count, sizeof *list, by_samples);
    return list;
}

void shell_word(const char *name, char *quoted, size_t size)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:,@%-";
    size_t used = 0;
    if (name[strspn(name, plain)] == 0) {
        snprintf(quoted, size, "%s", name);
        return;
    }
    quoted[used++] = '\'';
    for (; *name != 0 && used + 6 < size; name++) {
        const char *piece = *name == '\'' ? "'\\''" : (char[]){*name, 0};
        used += (size_t)snprintf(quoted + used, size - used, "%s", piece);
    }
    snprintf(quoted + used, size - used, "'");
}

/* The picture maker that this machine has; Debian ships flamegraph.pl outside of PATH. */
static const char *picture_maker(void)
{
    static const char debian[] = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl";
    static const char *const known[] = {"flamegraph.pl", "inferno-flamegraph"};
    char found[PATH_MAX];
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (path_search(known[i], found, sizeof found))
            return known[i];
    return access(debian, X_OK) == 0 ? debian : known[0];
}

/* The files to make a picture of, as words of a shell: all of a few, else the largest. Returns how
 * many. */
static size_t picture_files(const struct report *const *list, size_t count, char *words,
                            size_t size)
{
    size_t length = 0, taken = count <= PICTURE_FILES ? count : 1;
    for (size_t i = 0; i < taken; i++)
        if (list[i]->part_count > 1)
            taken = 1;
    for (size_t i = 0; i < taken; i++) {
        char word[2 * PATH_MAX];
        report_word(list[i], word, sizeof word);
        length += (size_t)snprintf(words + length, size - length, "%s%s", i > 0 ? " " : "", word);
    }
    return taken;
}

/* The next command to type: the files as a page, or, where the command has none, as others draw
 * them. LIST: of COUNT reports with files, the largest first. */
static void tell_picture(const struct reports *reports, const struct report *const *list,
                         size_t count)
{
    static struct config config;
    static char words[PICTURE_FILES * 2 * PATH_MAX];
    char options[RUN_OPTIONS][RUN_OPTION_BYTES], told[sizeof options + 8] = "";
    size_t options_count = run_options(reports, options), length = 0;
    bool has_page = page_find().head != NULL;
    options_of_environment(&config);
    bool is_pprof = config.format == CONFIG_FORMAT_PPROF;
    size_t taken = picture_files(list, has_page || is_pprof ? count : 1, words, sizeof words);
    const char *of = taken < count ? " of the largest" : "";
    char own[2 * PATH_MAX];
    shell_word(program_invocation_name, own, sizeof own);
    for (size_t i = 0; i < options_count; i++)
        length += (size_t)snprintf(told + length, sizeof told - length, " %s", options[i]);
    if (list[0]->part_count > 1)
        snprintf(told + length, sizeof told - length, " --sum");
    /* Not over a profile, whatever its name. */
    bool is_taken =
        strstr(words, "selfsample.html") != NULL || strstr(words, "selfsample.svg") != NULL;
    const char *picture = is_taken ? "picture" : "selfsample";
    if (has_page)
        tell("for a picture%s: %s flamegraph%s %s > %s.html", of, own, told, words, picture);
    else if (is_pprof)
        tell("for a picture%s: go tool pprof -http=: %s", of, words);
    else
        tell("for a picture%s: %s %s > %s.svg", of, picture_maker(), words, picture);
}

static void tell_file(const struct report *report)
{
    char word[2 * PATH_MAX], parts[48] = "";
    if (report->part_count > 1) {
        report_word(report, word, sizeof word);
        snprintf(parts, sizeof parts, "%zu files; ", report->part_count);
    } else {
        snprintf(word, sizeof word, "%s", path_from_here(report->file));
    }
    tell("wrote %s (%s%s, %" PRIu64 " %s)", word, parts, report->program, report->samples,
         stacks(report->samples));
}

static void tell_files(const struct reports *reports, bool picture_hint)
{
    size_t count;
    const struct report **list = reports_with_files(reports, &count);
    if (list == NULL || count == 0) {
        free(list);
        return;
    }
    for (size_t i = 0; i < count && i < FILES_TOLD; i++)
        tell_file(list[i]);
    if (count > FILES_TOLD)
        tell("and %zu more", count - FILES_TOLD);
    if (picture_hint)
        tell_picture(reports, list, count);
    free(list);
}

/* A clause for a run without any file that took its time: where that went. Else "". */
static void no_file_hint(const struct reports *reports, const struct totals *totals, char *hint,
                         size_t size)
{
    long run_ms = reports->ended_ms - reports->began_ms;
    uint64_t known_ns = totals->too_short_ns + totals->helper_cpu_ns;
    double others_ms = ((double)reports->run_cpu_ns - (double)known_ns) / 1e6;
    hint[0] = 0;
    if (totals->files != 0 || run_ms < EXPLAINED_MS)
        return;
    if (others_ms >= EXPLAINED_MS)
        snprintf(hint, size,
                 "; %.1f s of CPU time went into programs that are not profiled: static or setuid, "
                 "left out by an option, or run without LD_PRELOAD",
                 others_ms / 1000);
    else if (others_ms < (double)run_ms / 10)
        snprintf(hint, size,
                 "; the run took %.1f s: it slept or waited, and only CPU time is sampled",
                 (double)run_ms / 1000);
}

/* What would have given the short processes samples: a clause, or "". */
static void rate_hint(char *hint, size_t size)
{
    static struct config config;
    options_of_environment(&config);
    hint[0] = 0;
    if (config.rate_hz < CONFIG_RATE_HZ_MAX)
        snprintf(hint, size, "; --rate %u makes a period %.2f ms instead of %.2f ms",
                 CONFIG_RATE_HZ_MAX, 1e3 / CONFIG_RATE_HZ_MAX, 1e3 / config.rate_hz);
}

/* OTHERS: processes that are not in the totals. */
static void tell_too_short(const struct reports *reports, const struct totals *totals,
                           uint64_t others)
{
    char used[64] = ""; /* what is known of it */
    char hint[256];
    no_file_hint(reports, totals, hint, sizeof hint);
    if (hint[0] == 0 && totals->files == 0)
        rate_hint(hint, sizeof hint);
    if (totals->too_short_ns != 0)
        snprintf(used, sizeof used, "%.1f ms of CPU time, ", (double)totals->too_short_ns / 1e6);
    if (totals->too_short == 1 && totals->processes + others == 0)
        tell("no file was written: too short: %sless than one period seen%s", used, hint);
    else if (totals->too_short != 0)
        tell("%zu %s too short for a file: %sless than one period seen%s%s", totals->too_short,
             processes(totals->too_short), used, totals->too_short == 1 ? "" : " in each",
             others == 0 ? hint : "");
}

/* What keeps the figures from being the whole truth. */
static void tell_gaps(const struct reports *reports, const struct totals *totals)
{
    size_t running = reports_running(reports);
    uint64_t silent = reports->count - totals->processes - totals->too_short - running;
    if (totals->errors == 1)
        tell("%s", totals->error);
    else if (totals->errors != 0)
        tell("%zu %s with an error, the first: %s", totals->errors, processes(totals->errors),
             totals->error);
    if (silent != 0)
        tell("%" PRIu64 " %s ended without a report", silent, processes(silent));
    if (running != 0)
        tell("%zu %s still running: the profile comes at the end; `selfsample list` shows %s",
             running, processes(running), running == 1 ? "it" : "them");
    if (reports->dropped != 0)
        tell("%" PRIu64 " more %s are not counted here", reports->dropped,
             processes(reports->dropped));
    if (totals->processes != 0 && totals->files == 0 && totals->error == NULL)
        tell("no file was written: there was no sample");
    tell_too_short(reports, totals, silent + running);
}

void summary_tell(const struct reports *reports, const char *program, bool picture_hint)
{
    struct totals totals = totals_of(reports);
    if (reports->count == 0) {
        tell("no profile: %s did not load the library: %s", program,
             library_absence_reason(program));
        return;
    }
    if (totals.processes != 0) {
        tell_counts(&totals);
        tell_switches(&totals);
    }
    tell_gaps(reports, &totals);
    tell_files(reports, picture_hint);
}
