/* The text that `selfsample live` shows. Made in a child process, which ends with all the memory
 * that it took; a look that can't be read is a line of text like any other. */
#include "live.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void print_heading(const struct live_table *table)
{
    const struct look *before = table->before, *now = table->now;
    const char *state = table->words->paused ? ", paused" : "";
    printf("%s (pid %d)%s: ", table->words->program, (int)table->pid, state);
    if (before == NULL) {
        printf("all so far: %.2f s of CPU time, %" PRIu64 " stacks\n", (double)now->cpu_ns / 1e9,
               now->samples);
    } else {
        double seconds = (double)(now->at_ns - before->at_ns) / 1e9;
        double cpu_seconds = (double)(now->cpu_ns - before->cpu_ns) / 1e9;
        printf("last %.1f s: %.2f s of CPU time (%.0f %% of a CPU), %" PRIu64 " stacks\n", seconds,
               cpu_seconds, seconds > 0 ? 100 * cpu_seconds / seconds : 0,
               now->samples - before->samples);
    }
    if (table->keys != NULL)
        printf("%s\n", table->keys);
}

static void look_read(struct stacks *stacks, int side, const struct look *look,
                      const struct view_options *options)
{
    char path[64];
    if (look == NULL || look->fd < 0)
        return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", look->fd);
    struct view_options own = *options;
    view_read(stacks, side, path, NULL, &own);
}

static void print_table(const struct live_table *table)
{
    struct stacks stacks;
    bool only_new = table->before != NULL;
    size_t more;
    print_heading(table);
    stacks_open(&stacks);
    look_read(&stacks, 0, table->before, &table->options);
    look_read(&stacks, only_new, table->now, &table->options);
    uint64_t seen = stacks.root->total[only_new], old = only_new ? stacks.root->total[0] : 0;
    if (seen <= old)
        printf("no samples%s%s\n", table->options.thread != NULL ? " of such a thread" : "",
               table->words->paused ? "" : ": it waits, and only CPU time is sampled");
    else if ((more = top_print(&stacks, only_new, &table->options)) != 0)
        printf("and %zu more\n", more);
}

_Noreturn static void child(const struct live_table *table, int out_fd)
{
    char columns[32];
    if (table->columns != 0) {
        snprintf(columns, sizeof columns, "%zu", table->columns);
        setenv("COLUMNS", columns, 1);
        dup2(out_fd, STDERR_FILENO);
    }
    dup2(out_fd, STDOUT_FILENO);
    print_table(table);
    fflush(stdout);
    _exit(0);
}

/* All that comes from FD, as a string. */
static char *read_all(int fd)
{
    size_t room = 4096, used = 0;
    char *text = memory_or_end(malloc(room));
    for (;;) {
        ssize_t got = read(fd, text + used, room - used - 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        used += (size_t)got;
        if (room - used < 2) {
            room *= 2;
            text = memory_or_end(realloc(text, room));
        }
    }
    text[used] = 0;
    return text;
}

char *live_table_text(const struct live_table *table)
{
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        view_fail("pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid < 0)
        view_fail("fork: %s", strerror(errno));
    if (pid == 0) {
        close(ends[0]);
        child(table, ends[1]);
    }
    close(ends[1]);
    char *text = read_all(ends[0]);
    close(ends[0]);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        ;
    return text;
}
