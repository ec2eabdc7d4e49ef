/* snapshot, pause and resume: asks the helper of a process that is being profiled, and waits for
 * its answer. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helper.h"
#include "helpers.h"

/* Names of a large program may take a while; a helper that ends is seen. */
enum { ANSWER_SECONDS = 30 };

enum request { SNAPSHOT, PAUSE, RESUME, REQUESTS };

static const char *const request_words[REQUESTS] = {"snapshot", "pause", "resume"};

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

static bool is_done(enum request request, const struct helper_words *before,
                    const struct helper_words *now)
{
    if (request == SNAPSHOT)
        return now->snapshots != before->snapshots;
    return now->paused == (request == PAUSE);
}

static bool is_late(const struct timespec *began)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - began->tv_sec > ANSWER_SECONDS;
}

/* Ends the process where no answer comes. */
static void answer_wait(pid_t helper, int fd, enum request request,
                        const struct helper_words *before, struct helper_words *now)
{
    struct timespec began;
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (!helper_words_read(fd, now) || !is_done(request, before, now)) {
        if (helper_judge(helper, 0) != A_HELPER) {
            tell("%d: the program ended before its helper could answer", (int)helper);
            exit(STATUS_FAILED);
        }
        if (is_late(&began)) {
            tell("%d: the helper did not answer within %d s", (int)helper, ANSWER_SECONDS);
            exit(STATUS_FAILED);
        }
        answer_pause();
    }
}

_Noreturn static void control(enum request request, pid_t pid)
{
    static struct helper_words before, now;
    pid_t helper = helper_find(pid);
    int fd = helper_words_open(helper);
    for (int tries = 0; !helper_words_read(fd, &before) && tries < 100; tries++)
        answer_pause();
    ask(helper, request);
    answer_wait(helper, fd, request, &before, &now);
    close(fd);
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
        help_if_asked(
            argc, argv,
            "usage: selfsample snapshot|pause|resume PID\n\n"
            "snapshot writes the profile so far of a process that is being profiled and\n"
            "prints the name of the file. After pause nothing is sampled until resume. PID\n"
            "may be the helper's as well.\n\n");
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
