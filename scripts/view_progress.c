/*
 * How far long work has got: one line on stderr that is written over and over and leaves nothing
 * behind. Only on a terminal, and only once the work has taken half a second.
 */
#include "views.h"

#include <inttypes.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_MS = 500, EVERY_MS = 100 };

static struct {
    const char *what;
    uint64_t whole;
    int64_t began_ms, told_ms; /* told_ms 0: nothing stands on the terminal */
} progress;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void progress_begin(const char *what, uint64_t whole)
{
    progress_end();
    progress.what = isatty(STDERR_FILENO) ? what : NULL;
    progress.whole = whole;
    progress.began_ms = now_ms();
}

void progress_step(uint64_t done)
{
    if (progress.what == NULL)
        return;
    int64_t now = now_ms();
    if (now - progress.began_ms < FIRST_MS || now - progress.told_ms < EVERY_MS)
        return;
    progress.told_ms = now;
    if (progress.whole != 0)
        fprintf(stderr, "\rselfsample: %s: %.0f %%\033[K", progress.what,
                percent(done < progress.whole ? done : progress.whole, progress.whole));
    else
        fprintf(stderr, "\rselfsample: %s: %" PRIu64 " MB\033[K", progress.what, done >> 20);
}

void progress_end(void)
{
    if (progress.told_ms != 0)
        fputs("\r\033[K", stderr);
    progress.what = NULL;
    progress.told_ms = 0;
}
