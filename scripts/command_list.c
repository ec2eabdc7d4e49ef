/* `selfsample list`: the processes that are being profiled now. */
#include "command.h"
#include "helpers.h"
#include "views.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "outfile.h"

struct listed {
    pid_t pid, app;
    struct process helper;
    struct helper_words words;
};

static int by_start(const void *left, const void *right)
{
    const struct listed *a = left, *b = right;
    if (a->helper.start_ticks != b->helper.start_ticks)
        return a->helper.start_ticks < b->helper.start_ticks ? -1 : 1;
    return (a->pid > b->pid) - (a->pid < b->pid);
}

/* False where it has ended meanwhile. */
static bool listed_read(struct listed *listed, pid_t helper)
{
    listed->pid = helper;
    listed->app = helper_app(helper);
    return listed->app != 0 && helper_words_get(helper, &listed->words) &&
           process_read(listed->pid, &listed->helper);
}

static int64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * (int64_t)1000000000 + now.tv_nsec;
}

/* The moment TICKS after the system's start: its time if that was in the last day, else the day. */
static void since(uint64_t ticks, char *text, size_t size)
{
    struct tm broken_down;
    uint64_t started_ns = ticks * (1000000000 / (uint64_t)sysconf(_SC_CLK_TCK));
    int64_t uptime_ns = clock_ns(CLOCK_BOOTTIME), now_ns = clock_ns(CLOCK_REALTIME);
    time_t now = (time_t)(now_ns / 1000000000);
    time_t began = (time_t)((now_ns - uptime_ns + (int64_t)started_ns) / 1000000000);
    localtime_r(&began, &broken_down);
    strftime(text, size, now - began < 86400 ? "%H:%M:%S" : "%Y-%m-%d", &broken_down);
}

/* The name that the file of WORDS has or, if it were written now, would get. */
static const char *file_name(const struct helper_words *words)
{
    static char candidate[OUTPATH_BYTES];
    struct stat status;
    for (unsigned n = 0; n <= OUTFILE_SUFFIX_MAX && !words->out_is_had; n++) {
        struct text name = text_over(candidate, sizeof candidate);
        outpath_with_suffix(&name, words->out, n);
        if (lstat(candidate, &status) != 0)
            return candidate;
    }
    return words->out;
}

static void print_listed(const struct listed *listed)
{
    char began[32];
    const struct helper_words *words = &listed->words;
    since(listed->helper.start_ticks, began, sizeof began);
    printf("%7d  %-10s %10.2f %10" PRIu64 "  %-7s  %-15s  %-6s  %s\n", (int)listed->app, began,
           (double)words->cpu_ns / 1e9, words->samples, words->paused ? "paused" : "running",
           words->program, words->engine, file_name(words));
}

void view_list(struct view_options *options, char **files, size_t file_count)
{
    size_t count, others, read = 0;
    pid_t *helpers = helpers_list(0, &count, &others);
    struct listed *list = memory_or_end(calloc(count + 1, sizeof *list));
    (void)options, (void)files, (void)file_count;
    for (size_t i = 0; i < count; i++)
        read += listed_read(&list[read], helpers[i]);
    qsort(list, read, sizeof *list, by_start);
    if (read != 0)
        printf("%7s  %-10s %10s %10s  %-7s  %-15s  %-6s  %s\n", "pid", "since", "CPU s", "stacks",
               "state", "program", "engine", "file");
    for (size_t i = 0; i < read; i++)
        print_listed(&list[i]);
    fflush(stdout);
    if (read == 0)
        tell("no process is being profiled%s", others != 0 ? " that this user may look into" : "");
    if (others != 0)
        tell("%zu of other users %s not shown", others, others == 1 ? "is" : "are");
    free(list);
    free(helpers);
}
