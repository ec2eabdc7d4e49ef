/*
 * The reports of the helpers: core/summary.h has the format of the lines. Each helper writes one to
 * the FIFO that SELFSAMPLE_REPORT names at its start and one at its end, and holds the FIFO open in
 * between. Lines are no longer than PIPE_BUF, so they come whole. Anyone who finds the directory
 * may write there: nothing read here is trusted.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "config.h"

enum {
    WAIT_FIRST_MS = 150,  /* for the first helper of all to open the FIFO */
    WAIT_ORPHAN_MS = 200, /* for that of an orphan */
    ORPHAN_IMAGES = 4,    /* of one, that it may be at */
    WAIT_ALL_MS = 10000,  /* for helpers that are still writing */
    WAIT_LIVING_MS = 200, /* for processes that live on: they may be about to end */
    WAIT_STEP_MS = 10,
    NAME_ROOM = 64, /* for what is made in the temporary directory; helpers take no longer paths */
};

static void fifo_path(const struct reports *reports, char *path, size_t size)
{
    snprintf(path, size, "%s/report", reports->directory);
}

/* Processes of other users, and those that give up their rights, must be able to write to the FIFO.
 */
static int fifo_make(struct reports *reports)
{
    const char *parent = getenv("TMPDIR");
    if (parent == NULL || parent[0] != '/' || strlen(parent) > CONFIG_REPORT_BYTES - NAME_ROOM)
        parent = "/tmp";
    snprintf(reports->directory, sizeof reports->directory, "%s/selfsample.XXXXXX", parent);
    if (mkdtemp(reports->directory) == NULL)
        return -1;
    char path[PATH_MAX + 16];
    fifo_path(reports, path, sizeof path);
    if (mkfifo(path, 0622) != 0 || chmod(path, 0622) != 0 || chmod(reports->directory, 0711) != 0)
        return -1;
    reports->read_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    reports->write_fd = open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC);
    if (reports->read_fd < 0 || reports->write_fd < 0)
        return -1;
    return setenv("SELFSAMPLE_REPORT", path, 1);
}

static long monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void note_children_used(struct reports *reports)
{
    struct rusage usage;
    if (getrusage(RUSAGE_CHILDREN, &usage) != 0)
        return;
    reports->run_cpu_ns = (uint64_t)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000000 +
                          (uint64_t)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1000;
}

int reports_open(struct reports *reports)
{
    reports->read_fd = reports->write_fd = -1;
    reports->began_ms = monotonic_ms();
    if (fifo_make(reports) == 0)
        return 0;
    tell("%s: %s: the command wants to make a FIFO for itself there; TMPDIR says where",
         reports->directory, strerror(errno));
    reports_close(reports);
    return -1;
}

/* Undoes %XX in place. What comes of it is for files, and for nobody's terminal (tell). */
static void value_decode(char *value)
{
    char *to = value;
    for (const char *from = value; *from != 0; from++) {
        if (*from == '%' && strspn(from + 1, "0123456789abcdef") >= 2) {
            char digits[] = {from[1], from[2], 0};
            *to++ = (char)strtoul(digits, NULL, 16);
            from += 2;
        } else {
            *to++ = *from;
        }
    }
    *to = 0;
}

/* The value of KEY= in LINE. The last key of a line has the rest of it. */
static bool value_find(const char *line, const char *key, bool last, char *value, size_t size)
{
    size_t length = strlen(key);
    value[0] = 0;
    for (const char *at = strchr(line, ' '); at != NULL; at = strchr(at, ' ')) {
        at++;
        if (strncmp(at, key, length) != 0 || at[length] != '=')
            continue;
        at += length + 1;
        int bytes = (int)(last ? strlen(at) : strcspn(at, " "));
        snprintf(value, size, "%.*s", bytes, at);
        value_decode(value);
        return true;
    }
    return false;
}

static uint64_t number_find(const char *line, const char *key)
{
    char value[32];
    return value_find(line, key, false, value, sizeof value) ? strtoull(value, NULL, 10) : 0;
}

static bool flag_find(const char *line, const char *key)
{
    char value[8];
    return value_find(line, key, false, value, sizeof value) && strcmp(value, "yes") == 0;
}

/* Allocated; NULL where the value is empty or missing. */
static char *text_find(const char *line, const char *key, bool last)
{
    char value[PATH_MAX];
    return value_find(line, key, last, value, sizeof value) && value[0] ? strdup(value) : NULL;
}

static struct report *report_add(struct reports *reports, pid_t pid)
{
    if (reports->count == REPORTS_MAX) {
        reports->dropped++;
        return NULL;
    }
    if (reports->count == reports->room) {
        size_t room = reports->room ? 2 * reports->room : 64;
        struct report *list = realloc(reports->list, room * sizeof *list);
        if (list == NULL)
            return NULL;
        reports->list = list;
        reports->room = room;
    }
    struct report *report = &reports->list[reports->count++];
    struct process process;
    *report = (struct report){.pid = pid};
    if (process_read(pid, &process))
        report->start_ticks = process.start_ticks;
    return report;
}

/* One that has begun. Of the many of a tree few are open at a time, so these have a list. */
static void report_begin(struct reports *reports, struct report *report)
{
    size_t place = (size_t)(report - reports->list) + 1;
    if (reports->last_open != 0)
        reports->list[reports->last_open - 1].next_open = place;
    else
        reports->first_open = place;
    reports->last_open = place;
}

/* The oldest open report of a pid: an image that was left by exec ends after its successor has
 * begun. *BEFORE: that in front of it, as next_open. */
static struct report *report_open(struct reports *reports, pid_t pid, size_t *before)
{
    *before = 0;
    for (size_t at = reports->first_open; at != 0; at = reports->list[at - 1].next_open) {
        if (reports->list[at - 1].pid == pid)
            return &reports->list[at - 1];
        *before = at;
    }
    return NULL;
}

bool reports_is_open(const struct reports *reports, pid_t pid)
{
    for (size_t at = reports->first_open; at != 0; at = reports->list[at - 1].next_open)
        if (reports->list[at - 1].pid == pid)
            return true;
    return false;
}

/* Takes what report_open has found out of the list. */
static void report_end(struct reports *reports, struct report *report, size_t before)
{
    size_t *link = before != 0 ? &reports->list[before - 1].next_open : &reports->first_open;
    *link = report->next_open;
    if (report->next_open == 0)
        reports->last_open = before;
    report->next_open = 0;
}

static void report_fill(struct report *report, const char *line)
{
    value_find(line, "program", false, report->program, sizeof report->program);
    value_find(line, "engine", false, report->engine, sizeof report->engine);
    value_find(line, "kernel_reason", false, report->kernel_reason, sizeof report->kernel_reason);
    report->kernel_frames = flag_find(line, "kernel");
    report->too_short = flag_find(line, "too_short");
    report->samples = number_find(line, "samples");
    report->lost = number_find(line, "lost");
    report->whole = number_find(line, "whole");
    report->truncated = number_find(line, "truncated");
    report->uncovered = number_find(line, "uncovered");
    report->thinned = number_find(line, "thinned");
    report->throttled = number_find(line, "throttled");
    report->rate_hz = number_find(line, "rate_hz");
    report->own_ns = number_find(line, "own_ns");
    report->cpu_seen_ns = number_find(line, "cpu_seen_ns");
    report->cpu_clock_ns = number_find(line, "cpu_clock_ns");
    report->kernel_ns = number_find(line, "kernel_ns");
    report->switched_ns = number_find(line, "switched_ns");
    report->helper_cpu_ns = number_find(line, "helper_cpu_ns");
    report->error = text_find(line, "error", false);
    report->file = text_find(line, "file", true);
}

static void part_take(struct report *report, const char *line)
{
    char *path = text_find(line, "file", true);
    if (report != NULL && path != NULL)
        report_add_part(report, path);
    free(path);
}

static void line_take(struct reports *reports, char *line)
{
    pid_t pid = (pid_t)number_find(line, "pid");
    size_t before;
    if (strncmp(line, "start ", 6) == 0) {
        struct report *report = report_add(reports, pid);
        if (report == NULL)
            return;
        report_begin(reports, report);
        value_find(line, "program", true, report->program, sizeof report->program);
    } else if (strncmp(line, "part ", 5) == 0) {
        part_take(report_open(reports, pid, &before), line);
    } else if (strncmp(line, "end ", 4) == 0) {
        struct report *report = report_open(reports, pid, &before);
        if (report != NULL)
            report_end(reports, report, before);
        else if ((report = report_add(reports, pid)) == NULL)
            return;
        report->ended = true;
        report_fill(report, line);
    }
}

/* Takes the whole lines out of the buffer. A line that fills it without an end is nobody's report.
 */
static void lines_take(struct reports *reports)
{
    char *at = reports->buffer;
    char *end = reports->buffer + reports->buffered;
    for (char *newline; (newline = memchr(at, '\n', (size_t)(end - at))) != NULL;
         at = newline + 1) {
        *newline = 0;
        line_take(reports, at);
    }
    reports->buffered = (size_t)(end - at);
    if (reports->buffered == sizeof reports->buffer)
        reports->buffered = 0;
    memmove(reports->buffer, at, reports->buffered);
}

bool reports_drain(struct reports *reports)
{
    for (;;) {
        ssize_t bytes = read(reports->read_fd, reports->buffer + reports->buffered,
                             sizeof reports->buffer - reports->buffered);
        if (bytes == 0)
            return false;
        if (bytes < 0)
            return errno == EAGAIN || errno == EINTR;
        reports->buffered += (size_t)bytes;
        lines_take(reports);
    }
}

/* A zombie is dead: its helper is the one who is still at work. And of a dead one's number there
 * may be another by now. */
static bool process_lives(const struct report *report)
{
    struct process process;
    return process_read(report->pid, &process) && strchr("ZX", process.state) == NULL &&
           process.start_ticks == report->start_ticks;
}

static size_t count_open(const struct reports *reports, bool living)
{
    size_t count = 0;
    for (size_t at = reports->first_open; at != 0; at = reports->list[at - 1].next_open)
        count += process_lives(&reports->list[at - 1]) == living;
    return count;
}

size_t reports_running(const struct reports *reports)
{
    return count_open(reports, true);
}

/* A program may end before its helper got as far as the FIFO. Our own end is still open here, so
 * that poll sleeps rather than tells that nobody writes. */
static void first_report_wait(struct reports *reports)
{
    struct pollfd source = {.fd = reports->read_fd, .events = POLLIN};
    reports_drain(reports);
    if (reports->count == 0 && poll(&source, 1, WAIT_FIRST_MS) > 0)
        reports_drain(reports);
}

/* Until all have told how they ended, as far as they do within a time. */
static void ends_wait(struct reports *reports)
{
    long start_ms = monotonic_ms();
    while (reports_drain(reports)) {
        long waited_ms = monotonic_ms() - start_ms;
        size_t writing = count_open(reports, false);
        size_t living = count_open(reports, true);
        if (waited_ms > WAIT_ALL_MS || (writing == 0 && living == 0) ||
            (writing == 0 && waited_ms > WAIT_LIVING_MS))
            return;
        struct pollfd source = {.fd = reports->read_fd, .events = POLLIN};
        poll(&source, 1, WAIT_STEP_MS);
    }
}

static void orphan_wait(struct reports *reports)
{
    const struct timespec step = {0, WAIT_STEP_MS * 1000000};
    long start_ms = monotonic_ms();
    while (monotonic_ms() - start_ms < WAIT_ORPHAN_MS && orphan_is_there(reports)) {
        nanosleep(&step, NULL);
        reports_drain(reports);
    }
}

void reports_wait(struct reports *reports)
{
    reports->ended_ms = monotonic_ms();
    note_children_used(reports);
    first_report_wait(reports);
    close(reports->write_fd);
    reports->write_fd = -1;
    ends_wait(reports);
    /* What is about to end may be an image of an orphan whose next one has yet to tell of itself.
     */
    for (int i = 0; i < ORPHAN_IMAGES; i++) {
        orphan_wait(reports);
        if (count_open(reports, true) + count_open(reports, false) == 0)
            return;
        ends_wait(reports);
        if (reports_running(reports) != 0)
            return;
    }
}

void reports_close(struct reports *reports)
{
    char path[PATH_MAX + 16];
    fifo_path(reports, path, sizeof path);
    unlink(path);
    rmdir(reports->directory);
    if (reports->read_fd >= 0)
        close(reports->read_fd);
    if (reports->write_fd >= 0)
        close(reports->write_fd);
    for (size_t i = 0; i < reports->count; i++) {
        for (size_t part = 0; part < reports->list[i].part_count; part++)
            free(reports->list[i].parts[part]);
        free(reports->list[i].parts);
        free(reports->list[i].error);
        free(reports->list[i].file);
    }
    free(reports->list);
    reports->list = NULL;
    reports->count = reports->room = 0;
}
