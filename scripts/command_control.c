/* snapshot, pause and resume: asks the helper of a process that is being profiled, and waits for
 * its answer. */
#include "command.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "helpers.h"

/* Names of a large program may take a while; a helper that ends is seen. */
enum { ANSWER_SECONDS = 30 };

static const struct {
    const char *word;
    enum helper_request request;
} requests[] = {{"snapshot", ASK_SNAPSHOT}, {"pause", ASK_PAUSE}, {"resume", ASK_RESUME}};

static void ask(pid_t helper, enum helper_request request)
{
    if (helper_ask(helper, request))
        return;
    tell("%d: %s", (int)helper,
         errno == ESRCH ? "the program has ended meanwhile" : strerror(errno));
    exit(STATUS_FAILED);
}

static bool is_done(enum helper_request request, const struct helper_words *before,
                    const struct helper_words *now)
{
    if (request == ASK_SNAPSHOT)
        return now->snapshots != before->snapshots;
    return now->paused == (request == ASK_PAUSE);
}

static bool is_late(const struct timespec *began)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec - began->tv_sec > ANSWER_SECONDS;
}

/* Ends the process where no answer comes. */
static void answer_wait(pid_t helper, int fd, enum helper_request request,
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

_Noreturn static void control(enum helper_request request, pid_t pid)
{
    static struct helper_words before, now;
    pid_t helper = helper_find(pid);
    int fd = helper_words_open(helper);
    for (int tries = 0; !helper_words_read(fd, &before) && tries < 100; tries++)
        answer_pause();
    ask(helper, request);
    answer_wait(helper, fd, request, &before, &now);
    close(fd);
    if (request == ASK_SNAPSHOT && now.error[0] != 0) {
        tell("%d: nothing was written: %s", (int)pid, now.error);
        exit(STATUS_FAILED);
    }
    if (request == ASK_SNAPSHOT)
        puts(now.file);
    exit(fflush(stdout) == 0 ? 0 : STATUS_FAILED);
}

void control_apply(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0] && argc > 1; i++) {
        if (strcmp(argv[1], requests[i].word) != 0)
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
            control(requests[i].request, (pid_t)pid);
        tell("usage: selfsample %s PID, a process id; a program of this name is run by "
             "`selfsample -- %s`",
             argv[1], argv[1]);
        exit(STATUS_FAILED);
    }
}
