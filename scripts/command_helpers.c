/*
 * Finds helpers and reads what they say. A helper is known by what nobody else has: the name
 * `selfsample`, the profiled process as its parent, and its descriptor 0.
 */
#include "helpers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "status.h"

#define HELPER_NAME    "selfsample"
#define LOOKS_APART_NS 5000000

enum helper_found helper_judge(pid_t pid, pid_t parent)
{
    char path[64], target[PATH_MAX];
    struct process process;
    if (!process_read(pid, &process) || strcmp(process.name, HELPER_NAME) != 0 ||
        (parent != 0 && process.parent != parent))
        return NO_HELPER;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, STATUS_FD);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return errno == EACCES || errno == EPERM ? NOT_PERMITTED : NO_HELPER;
    target[length] = 0;
    return strncmp(target, "/memfd:" STATUS_NAME, sizeof "/memfd:" STATUS_NAME - 1) == 0
               ? A_HELPER
               : NO_HELPER;
}

pid_t *helpers_list(pid_t parent, size_t *count, size_t *others)
{
    pid_t *list = NULL;
    size_t room = 0;
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    *count = *others = 0;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        enum helper_found found = pid > 0 ? helper_judge(pid, parent) : NO_HELPER;
        *others += found == NOT_PERMITTED;
        if (found != A_HELPER)
            continue;
        if (*count == room) {
            room = 2 * room + 16;
            list = reallocarray(list, room, sizeof *list);
            if (list == NULL) {
                tell("out of memory");
                exit(STATUS_FAILED);
            }
        }
        list[(*count)++] = pid;
    }
    if (directory != NULL)
        closedir(directory);
    return list;
}

/* Has PID a helper that is one of its threads? */
static bool has_helper_thread(pid_t pid)
{
    char path[64];
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    DIR *directory = opendir(path);
    struct dirent *entry;
    while (directory != NULL && !found && (entry = readdir(directory)) != NULL) {
        pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = tid > 0 && helper_judge(tid, 0) == A_HELPER;
    }
    if (directory != NULL)
        closedir(directory);
    return found;
}

pid_t helper_find(pid_t pid)
{
    struct process process;
    enum helper_found found = helper_judge(pid, 0);
    if (found == A_HELPER)
        return pid;
    if (!process_read(pid, &process)) {
        tell("%d: no such process", (int)pid);
        exit(STATUS_FAILED);
    }
    size_t count, others;
    pid_t *helpers = helpers_list(pid, &count, &others), helper = count != 0 ? helpers[0] : 0;
    free(helpers);
    if (helper != 0)
        return helper;
    if (found == NOT_PERMITTED || others != 0)
        tell("%d (%s): not permitted: it belongs to another user", (int)pid, process.name);
    else if (strcmp(process.name, HELPER_NAME) == 0)
        tell("%d is the selfsample command; give the process id of the program", (int)pid);
    else if (has_helper_thread(pid))
        tell(
            "%d (%s): its helper is a thread of it, which can't be asked from outside; the program "
            "itself can, by selfsample_snapshot()",
            (int)pid, process.name);
    else
        tell("%d (%s) is not being profiled: it has no helper", (int)pid, process.name);
    exit(STATUS_FAILED);
}

/* The value behind KEY at the start of a line of TEXT, copied. */
static bool value_copy(const char *text, const char *key, char *value, size_t size)
{
    size_t length = strlen(key);
    for (const char *line = text; line != NULL && *line != 0;) {
        const char *end = strchr(line, '\n');
        if (end == NULL)
            return false;
        if (strncmp(line, key, length) == 0 && line[length] == ' ') {
            snprintf(value, size, "%.*s", (int)(end - line - (ssize_t)length - 1),
                     line + length + 1);
            for (unsigned char *c = (unsigned char *)value; *c != 0; c++)
                if (*c < ' ' || *c == 0x7f)
                    *c = '?';
            return true;
        }
        line = end + 1;
    }
    return false;
}

static bool number_copy(const char *text, const char *key, uint64_t *number)
{
    char value[32];
    if (!value_copy(text, key, value, sizeof value))
        return false;
    *number = strtoull(value, NULL, 10);
    return true;
}

int helper_words_open(pid_t helper)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)helper, STATUS_FD);
    return open(path, O_RDONLY | O_CLOEXEC);
}

bool helper_words_read(int fd, struct helper_words *words)
{
    static char text[STATUS_BYTES];
    char format[16], unit[16], paused[8];
    uint64_t serial, end, look;
    ssize_t length = pread(fd, text, sizeof text - 1, 0);
    if (length <= 0)
        return false;
    text[length] = 0;
    bool whole =
        number_copy(text, "serial", &serial) && number_copy(text, "end", &end) && serial == end &&
        value_copy(text, "program", words->program, sizeof words->program) &&
        value_copy(text, "engine", words->engine, sizeof words->engine) &&
        value_copy(text, "format", format, sizeof format) &&
        value_copy(text, "unit", unit, sizeof unit) && number_copy(text, "rate", &words->rate_hz) &&
        number_copy(text, "roots", &words->roots) &&
        value_copy(text, "out", words->out, sizeof words->out) &&
        number_copy(text, "samples", &words->samples) &&
        number_copy(text, "cpu_ns", &words->cpu_ns) &&
        value_copy(text, "paused", paused, sizeof paused) &&
        number_copy(text, "snapshots", &words->snapshots) &&
        value_copy(text, "error", words->error, sizeof words->error) &&
        value_copy(text, "file", words->file, sizeof words->file) &&
        number_copy(text, "looks", &words->looks) && number_copy(text, "look", &look) &&
        value_copy(text, "look_error", words->look_error, sizeof words->look_error);
    if (!whole)
        return false;
    words->look_fd = (long)look;
    words->is_folded = strcmp(format, "folded") == 0;
    words->is_us = strcmp(unit, "us") == 0;
    words->paused = strcmp(paused, "yes") == 0;
    return true;
}

void answer_pause(void)
{
    nanosleep(&(struct timespec){0, LOOKS_APART_NS}, NULL);
}
