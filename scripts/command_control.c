/*
 * Speaking with the helper of a process that is being profiled: by signals to the helper, which the
 * program does not see, and by the text that the helper keeps in its descriptor 0 (core/status.h).
 *
 * A helper is found by what nobody else has: the name `selfsample`, the process as its parent, and
 * that descriptor.
 */
#include "command.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"
#include "status.h"

#define HELPER_NAME "selfsample"

enum {
    LOOKS_APART_NS = 5000000,
    ANSWER_SECONDS = 30, /* names of a large program may take a while; a helper that ends is seen */
};

enum request { SNAPSHOT, PAUSE, RESUME, REQUESTS };

static const char *const request_words[REQUESTS] = {"snapshot", "pause", "resume"};

/* What a helper has said. */
struct answer {
    uint64_t snapshots;
    bool paused;
    char error[128];
    char file[PATH_MAX];
};

enum helper_look { NO_HELPER, A_HELPER, NOT_PERMITTED };

/* Is PID a helper, of PARENT if that is not 0? */
static enum helper_look helper_look(pid_t pid, pid_t parent)
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

/* The helper that PID is or has. Ends the process with a line where there is none. */
static pid_t helper_find(pid_t pid)
{
    struct process process;
    enum helper_look look = helper_look(pid, 0);
    if (look == A_HELPER)
        return pid;
    if (!process_read(pid, &process)) {
        tell("%d: no such process", (int)pid);
        exit(STATUS_FAILED);
    }
    DIR *directory = opendir("/proc");
    struct dirent *entry;
    while (directory != NULL && (entry = readdir(directory)) != NULL) {
        pid_t candidate = (pid_t)strtol(entry->d_name, NULL, 10);
        enum helper_look found = candidate > 0 ? helper_look(candidate, pid) : NO_HELPER;
        if (found == A_HELPER) {
            closedir(directory);
            return candidate;
        }
        if (found == NOT_PERMITTED)
            look = found;
    }
    if (directory != NULL)
        closedir(directory);
    if (look == NOT_PERMITTED)
        tell("%d (%s): not permitted: it belongs to another user", (int)pid, process.name);
    else if (strcmp(process.name, HELPER_NAME) == 0)
        tell("%d is the selfsample command; give the process id of the program", (int)pid);
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
            return true;
        }
        line = end + 1;
    }
    return false;
}

/* False where the helper is gone or its text is being written. */
static bool answer_read(pid_t helper, struct answer *answer)
{
    char path[64], text[STATUS_BYTES], serial[32], end[32], paused[8], snapshots[32];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)helper, STATUS_FD);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof text - 1, 0);
    if (fd >= 0)
        close(fd);
    if (length <= 0)
        return false;
    text[length] = 0;
    if (!value_copy(text, "serial", serial, sizeof serial) ||
        !value_copy(text, "paused", paused, sizeof paused) ||
        !value_copy(text, "snapshots", snapshots, sizeof snapshots) ||
        !value_copy(text, "error", answer->error, sizeof answer->error) ||
        !value_copy(text, "file", answer->file, sizeof answer->file) ||
        !value_copy(text, "end", end, sizeof end) || strcmp(serial, end) != 0)
        return false;
    answer->snapshots = strtoull(snapshots, NULL, 10);
    answer->paused = strcmp(paused, "yes") == 0;
    return true;
}

static void ask(pid_t helper, enum request request)
{
    union sigval value = {.sival_int = request == PAUSE ? HELPER_VALUE_PAUSE : HELPER_VALUE_RESUME};
    int result = request == SNAPSHOT ? kill(helper, SIGUSR1) : sigqueue(helper, SIGUSR2, value);
    if (result != 0) {
        tell("%d: %s", (int)helper,
             errno == ESRCH ? "the program has ended meanwhile" : strerror(errno));
        exit(STATUS_FAILED);
    }
}

static bool is_done(enum request request, const struct answer *before, const struct answer *now)
{
    if (request == SNAPSHOT)
        return now->snapshots != before->snapshots;
    return now->paused == (request == PAUSE);
}

/* Ends the process where no answer comes. */
static void answer_wait(pid_t helper, enum request request, const struct answer *before,
                        struct answer *now)
{
    const struct timespec apart = {0, LOOKS_APART_NS};
    for (long i = 0; i < ANSWER_SECONDS * (1000000000L / LOOKS_APART_NS); i++) {
        if (answer_read(helper, now) && is_done(request, before, now))
            return;
        if (helper_look(helper, 0) != A_HELPER) {
            tell("%d: the program ended before its helper could answer", (int)helper);
            exit(STATUS_FAILED);
        }
        nanosleep(&apart, NULL);
    }
    tell("%d: the helper did not answer within %d s", (int)helper, ANSWER_SECONDS);
    exit(STATUS_FAILED);
}

_Noreturn static void control(enum request request, pid_t pid)
{
    static struct answer before, now;
    pid_t helper = helper_find(pid);
    for (int tries = 0; !answer_read(helper, &before) && tries < 100; tries++)
        nanosleep(&(struct timespec){0, LOOKS_APART_NS / 5}, NULL);
    ask(helper, request);
    answer_wait(helper, request, &before, &now);
    if (request == SNAPSHOT && now.error[0] != 0) {
        tell("%d: nothing was written: %s", (int)pid, now.error);
        exit(STATUS_FAILED);
    }
    if (request == SNAPSHOT)
        puts(now.file);
    exit(fflush(stdout) == 0 ? 0 : STATUS_FAILED);
}

void control_apply(int argc, char **argv)
{
    for (int i = 0; i < REQUESTS && argc > 1; i++) {
        if (strcmp(argv[1], request_words[i]) != 0)
            continue;
        char *end = NULL;
        long pid = argc == 3 ? strtol(argv[2], &end, 10) : 0;
        if (pid > 0 && pid <= INT_MAX && isdigit((unsigned char)argv[2][0]) && *end == 0)
            control((enum request)i, (pid_t)pid);
        tell("usage: selfsample %s PID, a process id; a program of this name is run by "
             "`selfsample -- %s`",
             argv[1], argv[1]);
        exit(STATUS_FAILED);
    }
}
