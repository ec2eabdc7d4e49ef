/* snapshot, pause and resume: asks the helper of a process that is being profiled, and waits for
 * its answer. */
#include "command.h"

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

/* Ends the process with a line about WHOM, as the user said it. */
_Noreturn static void fail(const char *whom, const char *why)
{
    tell("%s: %s", whom, why);
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

/* Asks the HELPER of WHOM and waits for the answer, which is in *NOW. */
static void ask(const char *whom, pid_t helper, enum helper_request request,
                struct helper_words *now)
{
    static struct helper_words before;
    struct timespec began;
    int fd = helper_words_open(helper);
    errno = fd < 0 ? errno : EAGAIN; /* for words that never come whole */
    if (fd < 0 || !helper_words_get(helper, &before) || !helper_ask(helper, request))
        fail(whom, errno == ESRCH || errno == ENOENT ? "the program has ended meanwhile"
                                                     : strerror(errno));
    clock_gettime(CLOCK_MONOTONIC, &began);
    while (!helper_words_read(fd, now) || !is_done(request, &before, now)) {
        if (helper_judge(helper, 0) != A_HELPER)
            fail(whom, "the program ended before its helper could answer");
        if (is_late(&began))
            fail(whom, "its helper has not answered within 30 s");
        answer_pause();
    }
    close(fd);
}

_Noreturn static void control(enum helper_request request, const char *whom)
{
    static struct helper_words words;
    ask(whom, helper_of_argument(whom), request, &words);
    if (request == ASK_SNAPSHOT && words.error[0] != 0) {
        tell("%s: nothing was written: %s", whom, words.error);
        exit(STATUS_FAILED);
    }
    if (request == ASK_SNAPSHOT)
        puts(words.file);
    exit(fflush(stdout) == 0 ? 0 : STATUS_FAILED);
}

void control_apply(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof requests / sizeof requests[0] && argc > 1; i++) {
        if (strcmp(argv[1], requests[i].word) != 0)
            continue;
        help_if_asked(
            argc, argv,
            "usage: selfsample snapshot|pause|resume PID|PROGRAM\n\n"
            "snapshot writes the profile so far of a process that is being profiled and\n"
            "prints the name of the file. After pause nothing is sampled until resume. PID\n"
            "may be the helper's as well; PROGRAM does where one process alone runs it.\n\n");
        if (argc == 3 && argv[2][0] != '-' && argv[2][0] != 0)
            control(requests[i].request, argv[2]);
        tell("usage: selfsample %s PID|PROGRAM, a process that is being profiled; a program of "
             "the name %s is run by `selfsample -- %s`",
             argv[1], argv[1], argv[1]);
        exit(STATUS_FAILED);
    }
}
