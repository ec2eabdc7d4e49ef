/*
 * `selfsample live`: the running top of a process, from looks that its helper takes. Signals come
 * by a descriptor, so that they are read in one loop with the keys, and the terminal is given back
 * whatever ends this.
 */
#include "command.h"
#include "live.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include "status.h"

enum {
    PIPE_ROWS = 20,
    ANSWER_STEP_MS = 5,
    ASK_AGAIN_MS = 2000, /* another's signal may have stood in for ours */
    ALIVE_STEP_MS = 100, /* between looks */
    ROWS_BESIDE = 5,     /* on a screen: headings, and the lines behind the functions */
};

#define KEYS "q quits  space: last/all  t: by thread  s: self/total"

/* What goes on. */
enum event { NOTHING, REPAINT, QUIT, ENDED };

struct live {
    pid_t pid, helper;
    int words_fd, signals_fd;
    struct helper_words words;
    struct look before, now;
    struct view_options options;
    bool all; /* what is shown: all so far, or the last interval */
    struct screen screen;
    size_t shown;
};

static uint64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* ---- keys and signals ---- */

/* Ctrl-Z: the terminal is the shell's until somebody wakes us. */
static void stop_here(struct live *live)
{
    screen_leave(&live->screen);
    kill(getpid(), SIGSTOP);
    screen_enter(&live->screen);
    screen_measure(&live->screen);
}

static enum event signal_take(struct live *live)
{
    struct signalfd_siginfo signal;
    if (read(live->signals_fd, &signal, sizeof signal) != (ssize_t)sizeof signal)
        return NOTHING;
    switch (signal.ssi_signo) {
    case SIGWINCH:
        screen_measure(&live->screen);
        return REPAINT;
    case SIGTSTP:
        stop_here(live);
        return REPAINT;
    case SIGCONT:
        return REPAINT;
    default:
        return QUIT;
    }
}

static enum event key_take(struct live *live)
{
    char key;
    ssize_t got = read(STDIN_FILENO, &key, 1);
    if (got < 0 && errno == EINTR)
        return NOTHING;
    if (got <= 0) {
        live->screen.has_keys = false;
        return NOTHING;
    }
    switch (key) {
    case 'q':
    case 'Q':
        return QUIT;
    case ' ':
        live->all = !live->all;
        return REPAINT;
    case 't':
        live->options.by_thread = !live->options.by_thread && live->options.roots != 0;
        return REPAINT;
    case 's':
        live->options.sort = live->options.sort == SORT_SELF ? SORT_TOTAL : SORT_SELF;
        return REPAINT;
    default:
        return NOTHING;
    }
}

/* Waits for something to happen, TIMEOUT_MS at the most. */
static enum event event_wait(struct live *live, int timeout_ms)
{
    struct pollfd sources[] = {
        {.fd = live->signals_fd, .events = POLLIN},
        {.fd = live->screen.has_keys ? STDIN_FILENO : -1, .events = POLLIN},
    };
    if (poll(sources, 2, timeout_ms) <= 0)
        return NOTHING;
    if (sources[0].revents != 0)
        return signal_take(live);
    return sources[1].revents != 0 ? key_take(live) : NOTHING;
}

/* Keeps ctrl-C and its like for signal_take. */
static void signals_open(struct live *live)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGWINCH, SIGTSTP, SIGCONT};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        sigaddset(&set, taken[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    live->signals_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    if (live->signals_fd < 0)
        view_fail("signalfd: %s", strerror(errno));
}

/* ---- looks ---- */

static void look_close(struct look *look)
{
    if (look->fd >= 0)
        close(look->fd);
    look->fd = -1;
}

/* Opens what the helper's answer speaks of. False where another look has replaced it already. */
static bool look_open(const struct live *live, struct look *look)
{
    char path[64], target[64] = "";
    *look = (struct look){.fd = -1,
                          .cpu_ns = live->words.cpu_ns,
                          .samples = live->words.samples,
                          .at_ns = monotonic_ns()};
    if (live->words.look_fd < 0)
        return live->words.look_error[0] != 0;
    snprintf(path, sizeof path, "/proc/%d/fd/%ld", (int)live->helper, live->words.look_fd);
    look->fd = open(path, O_RDONLY | O_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", look->fd);
    if (look->fd >= 0 && readlink(path, target, sizeof target - 1) > 0 &&
        strncmp(target, "/memfd:" LOOK_NAME, sizeof "/memfd:" LOOK_NAME - 1) == 0)
        return true;
    look_close(look);
    return false;
}

/* Has the helper take a look and puts it into LOOK. NOTHING: it is there. */
static enum event look_take(struct live *live, struct look *look)
{
    uint64_t asked_ns = 0, looks = live->words.looks;
    for (;;) {
        uint64_t now_ns = monotonic_ns();
        if (asked_ns == 0 || now_ns - asked_ns > ASK_AGAIN_MS * 1000000ull) {
            asked_ns = now_ns;
            helper_ask(live->helper, ASK_LOOK);
        }
        enum event event = event_wait(live, ANSWER_STEP_MS);
        if (event == QUIT)
            return QUIT;
        if (helper_judge(live->helper, 0) != A_HELPER)
            return ENDED;
        if (!helper_words_read(live->words_fd, &live->words) || live->words.looks == looks)
            continue;
        if (look_open(live, look))
            return NOTHING;
        looks = live->words.looks;
        asked_ns = 0;
    }
}

/* ---- what is shown ---- */

static char *text_of(struct live *live, const struct look *before, const struct look *now)
{
    struct live_table table = {.words = &live->words,
                               .options = live->options,
                               .pid = live->pid,
                               .before = before,
                               .now = now};
    size_t room = live->screen.rows > ROWS_BESIDE ? live->screen.rows - ROWS_BESIDE : 1;
    if (live->screen.is_entered) {
        table.columns = live->screen.columns;
        table.keys = KEYS;
        if (table.options.rows == 0 || table.options.rows > room)
            table.options.rows = room;
    } else if (table.options.rows == 0) {
        table.options.rows = PIPE_ROWS;
    }
    return live_table_text(&table);
}

static void print(const char *text)
{
    fputs(text, stdout);
    if (fflush(stdout) != 0)
        view_fail("stdout: not all was written: %s", strerror(errno));
}

static void show(struct live *live)
{
    char *text = text_of(live, live->all ? NULL : &live->before, &live->now);
    if (live->screen.is_entered) {
        screen_paint(&live->screen, text);
    } else {
        print(live->shown != 0 ? "\n" : "");
        print(text);
    }
    free(text);
}

/* The last that is known of an ended process: its file or, where it left none that `top` can read,
 * the last look. */
static void show_end(struct live *live)
{
    screen_leave(&live->screen);
    helper_words_read(live->words_fd, &live->words);
    const char *file = live->words.file;
    int fd = file[0] != 0 && live->words.is_folded ? open(file, O_RDONLY | O_CLOEXEC) : -1;
    tell("%s (pid %d) has ended%s%s", live->words.program, (int)live->pid,
         file[0] != 0 ? ", or was replaced by exec; its profile is " : " and left no profile",
         file);
    struct look last = {.fd = fd >= 0 ? fd : live->now.fd,
                        .cpu_ns = fd >= 0 ? live->words.cpu_ns : live->now.cpu_ns,
                        .samples = fd >= 0 ? live->words.samples : live->now.samples};
    char *text = text_of(live, NULL, &last);
    print(live->shown != 0 ? "\n" : "");
    print(text);
    free(text);
}

/* Lets an interval go by, repainting where a key or the terminal asks for it. */
static enum event interval_wait(struct live *live)
{
    uint64_t end_ns = monotonic_ns() + (uint64_t)(live->options.interval_s * 1e9);
    for (;;) {
        uint64_t now_ns = monotonic_ns();
        if (now_ns >= end_ns)
            return NOTHING;
        uint64_t left_ms = (end_ns - now_ns) / 1000000 + 1;
        enum event event = event_wait(live, left_ms < ALIVE_STEP_MS ? (int)left_ms : ALIVE_STEP_MS);
        if (event == QUIT)
            return QUIT;
        if (event == REPAINT && live->screen.is_entered)
            show(live);
        if (helper_judge(live->helper, 0) != A_HELPER)
            return ENDED;
    }
}

/* Until there is a reason to end, which is returned. */
static enum event run(struct live *live)
{
    enum event event = look_take(live, &live->now);
    if (event == NOTHING && live->screen.is_terminal) {
        bool all = live->all;
        screen_enter(&live->screen);
        live->all = true; /* there is nothing yet that it could be compared with */
        show(live);
        live->all = all;
    }
    while (event == NOTHING) {
        struct look next;
        event = interval_wait(live);
        if (event == NOTHING)
            event = look_take(live, &next);
        if (event != NOTHING)
            break;
        look_close(&live->before);
        live->before = live->now;
        live->now = next;
        show(live);
        live->shown++;
        if (live->options.count != 0 && live->shown >= live->options.count)
            event = QUIT;
    }
    return event;
}

void view_live(struct view_options *options, char **process, size_t count)
{
    static struct live live;
    (void)count;
    live.helper = helper_of_argument(process[0]);
    live.words_fd = helper_words_open(live.helper);
    while (!helper_words_read(live.words_fd, &live.words) ||
           (live.pid = helper_app(live.helper)) == 0) {
        if (helper_judge(live.helper, 0) != A_HELPER)
            view_fail("%s: it has just ended", process[0]);
        answer_pause();
    }
    live.before.fd = live.now.fd = -1;
    live.options = *options;
    live.options.is_us = live.words.is_us;
    live.options.rate = (double)live.words.rate_hz;
    live.options.roots = live.words.roots;
    live.all = options->all;
    if (options->thread != NULL && live.options.roots == 0)
        view_fail("--thread %s: this profile has no frames of threads", options->thread);
    live.options.by_thread = options->by_thread && live.options.roots != 0;
    screen_open(&live.screen);
    signals_open(&live);
    if (run(&live) == ENDED)
        show_end(&live);
    screen_leave(&live.screen);
}
