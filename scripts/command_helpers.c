/*
 * Finds helpers, asks them, and reads what they say. A helper is known by what nobody else has: the
 * name `selfsample`, the profiled process as its parent or as the process that it is a thread of,
 * and its descriptor 0.
 */
#include "helpers.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "helper.h"
#include "requests.h"
#include "status.h"
#include "views.h"

#define LOOKS_APART_NS 5000000

enum { READS = 20 }; /* tries to read what a helper is just writing */

/* The same on every processor; older headers don't know them. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif

/* The process that PID, which may be a thread, belongs to; 0 where it is gone. */
static pid_t process_of(pid_t pid)
{
    char path[64], line[256];
    int process = 0;
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "re");
    while (file != NULL && process == 0 && fgets(line, sizeof line, file) != NULL)
        sscanf(line, "Tgid: %d", &process);
    if (file != NULL)
        fclose(file);
    return process;
}

pid_t helper_app(pid_t helper)
{
    struct process process;
    pid_t own = process_of(helper);
    if (own != helper)
        return own;
    return process_read(helper, &process) ? process.parent : 0;
}

/* Is descriptor FD of PID a memory file of this name? -1 and errno where it can't be seen. */
static int has_memory_file(pid_t pid, int fd, const char *name)
{
    char path[64], target[PATH_MAX], wanted[64];
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
    ssize_t length = readlink(path, target, sizeof target - 1);
    if (length < 0)
        return -1;
    target[length] = 0;
    snprintf(wanted, sizeof wanted, "/memfd:%s", name);
    return strncmp(target, wanted, strlen(wanted)) == 0;
}

enum helper_found helper_judge(pid_t pid, pid_t app)
{
    struct process process;
    if (!process_read(pid, &process) || strcmp(process.name, HELPER_NAME) != 0 ||
        (app != 0 && helper_app(pid) != app))
        return NO_HELPER;
    int has = has_memory_file(pid, STATUS_FD, STATUS_NAME);
    /* Another user's, by the one thing that can be seen: a command of this name has a parent. */
    if (has < 0)
        return (errno == EACCES || errno == EPERM) && process.end_signal != SIGCHLD ? NOT_PERMITTED
                                                                                    : NO_HELPER;
    return has ? A_HELPER : NO_HELPER;
}

/* Those that were found so far. */
struct found {
    pid_t *list;
    size_t count, room, others;
};

static void found_judge(struct found *found, pid_t pid, pid_t app)
{
    enum helper_found what = helper_judge(pid, app);
    found->others += what == NOT_PERMITTED;
    if (what != A_HELPER)
        return;
    if (found->count == found->room) {
        found->room = 2 * found->room + 16;
        found->list = memory_or_end(reallocarray(found->list, found->room, sizeof *found->list));
    }
    found->list[found->count++] = pid;
}

/* Calls DO_IT with each process or thread that DIRECTORY, one of /proc, lists. */
static void tasks_each(const char *directory, struct found *found, pid_t app,
                       void (*do_it)(struct found *found, pid_t pid, pid_t app))
{
    DIR *stream = opendir(directory);
    struct dirent *entry;
    while (stream != NULL && (entry = readdir(stream)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        if (pid > 0)
            do_it(found, pid, app);
    }
    if (stream != NULL)
        closedir(stream);
}

static void process_look(struct found *found, pid_t pid, pid_t app)
{
    char path[64];
    struct process process;
    found_judge(found, pid, app);
    if ((app != 0 && app != pid) || !process_read(pid, &process) || process.threads < 2)
        return;
    snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
    tasks_each(path, found, pid, found_judge);
}

pid_t *helpers_list(pid_t app, size_t *count, size_t *others)
{
    struct found found = {0};
    tasks_each("/proc", &found, app, process_look);
    *count = found.count;
    *others = found.others;
    return found.list;
}

static pid_t helper_of_process(pid_t pid)
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
    else
        tell("%d (%s) is not being profiled: it has no helper", (int)pid, process.name);
    exit(STATUS_FAILED);
}

static pid_t helper_of_program(const char *name)
{
    static struct helper_words words;
    size_t count, others, matching = 0;
    pid_t *helpers = helpers_list(0, &count, &others), found = 0;
    for (size_t i = 0; i < count; i++) {
        if (!helper_words_get(helpers[i], &words) || strcmp(words.program, name) != 0)
            continue;
        found = helpers[i];
        matching++;
    }
    free(helpers);
    if (matching == 1)
        return found;
    if (matching == 0)
        tell("%s: no profiled process runs a program of this name; `selfsample list` shows which "
             "there are",
             name);
    else
        tell("%s: %zu profiled processes run it; give the pid that `selfsample list` shows", name,
             matching);
    exit(STATUS_FAILED);
}

pid_t helper_of_argument(const char *argument)
{
    bool is_number = argument[0] != 0 && argument[strspn(argument, "0123456789")] == 0;
    long pid = is_number ? strtol(argument, NULL, 10) : 0;
    return pid > 0 && pid <= INT_MAX ? helper_of_process((pid_t)pid) : helper_of_program(argument);
}

/* ---- asking ---- */

static void request_note(struct requests_asked *asked, enum helper_request request)
{
    if (request == ASK_SNAPSHOT)
        asked->snapshots++;
    else if (request == ASK_LOOK)
        asked->looks++;
    else
        asked->pause = ((asked->pause >> 1) + 1) << 1 | (request == ASK_PAUSE);
}

/* It must get no signal: if it has just ended, that would be the program's. */
static bool thread_ask(pid_t helper, enum helper_request request)
{
    char path[64];
    struct requests_asked asked;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)helper, REQUESTS_FD);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return false;
    /* Only now: until it was open somebody else could have come to be of this number. */
    if (has_memory_file(getpid(), fd, REQUESTS_NAME) != 1) {
        close(fd);
        errno = ESRCH;
        return false;
    }
    bool done = flock(fd, LOCK_EX) == 0 && pread(fd, &asked, sizeof asked, 0) == sizeof asked;
    if (done) {
        request_note(&asked, request);
        done = pwrite(fd, &asked, sizeof asked, 0) == sizeof asked;
    }
    close(fd);
    return done;
}

/* Was a call refused since the kernel, or a container's filter, has none such? */
static bool has_no_call(long result)
{
    return result < 0 && (errno == ENOSYS || errno == EPERM);
}

static bool signal_send(int process, pid_t helper, int signal, int value)
{
    siginfo_t info = {.si_signo = signal, .si_code = SI_QUEUE};
    info.si_pid = getpid();
    info.si_uid = getuid();
    info.si_value.sival_int = value;
    long result = -1;
    if (process >= 0)
        result = syscall(SYS_pidfd_send_signal, process, signal, &info, 0);
    if (process < 0 || has_no_call(result))
        result = sigqueue(helper, signal, info.si_value);
    return result == 0;
}

/* To anybody else the signal would be death: so first a descriptor of the process, then the look at
 * who that is. Where there are no such descriptors, the look alone. */
static bool process_ask(pid_t helper, int signal, int value)
{
    int process = (int)syscall(SYS_pidfd_open, helper, 0);
    if (process < 0 && !has_no_call(process))
        return false;
    bool done = false;
    if (helper_judge(helper, 0) == A_HELPER)
        done = signal_send(process, helper, signal, value);
    else
        errno = ESRCH;
    if (process >= 0)
        close(process);
    return done;
}

bool helper_ask(pid_t helper, enum helper_request request)
{
    static const struct {
        int signal, value;
    } signals[] = {
        [ASK_SNAPSHOT] = {SIGUSR1, 0},
        [ASK_LOOK] = {SIGUSR1, HELPER_VALUE_LOOK},
        [ASK_PAUSE] = {SIGUSR2, HELPER_VALUE_PAUSE},
        [ASK_RESUME] = {SIGUSR2, HELPER_VALUE_RESUME},
    };
    if (process_of(helper) != helper)
        return thread_ask(helper, request);
    return process_ask(helper, signals[request].signal, signals[request].value);
}

/* ---- what they say ---- */

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
            terminal_clean(value);
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
    char format[16], unit[16], had[8] = "", paused[8];
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
    value_copy(text, "out_is_had", had, sizeof had); /* older libraries do not say */
    words->out_is_had = strcmp(had, "yes") == 0;
    words->paused = strcmp(paused, "yes") == 0;
    return true;
}

bool helper_words_get(pid_t helper, struct helper_words *words)
{
    int fd = helper_words_open(helper);
    bool read = false;
    for (int i = 0; i < READS && fd >= 0 && !(read = helper_words_read(fd, words)); i++)
        answer_pause();
    if (fd >= 0)
        close(fd);
    return read;
}

void answer_pause(void)
{
    nanosleep(&(struct timespec){0, LOOKS_APART_NS}, NULL);
}
