/*
 * Uses 100 ms of CPU time in work() and becomes itself again, with SIGCHLD blocked if argv[1] is
 * "blocked". The second image says what it sees of the first in its first 300 ms: whether its wait
 * was interrupted, how many signals of children came or are pending, and dead children. Leaves a
 * file "late" where the way to its main took so long that nobody has waited for the first's helper.
 */
#include "burn.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

BURNER(work)

#define LATE_NS 95000000L

static volatile sig_atomic_t came;

static void on_child(int number)
{
    (void)number;
    came++;
}

/* Children whose entries nobody has taken leave of, as /proc shows them. */
static int dead_children(void)
{
    char path[64], children[512], state = '?';
    int dead = 0, pid, used;

    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(path, "r");
    size_t bytes = file ? fread(children, 1, sizeof(children) - 1, file) : 0;
    if (file)
        fclose(file);
    children[bytes] = 0;
    for (char *next = children; sscanf(next, "%d%n", &pid, &used) == 1; next += used) {
        snprintf(path, sizeof(path), "/proc/%d/stat", pid);
        file = fopen(path, "r");
        dead += file && fscanf(file, "%*d (%*[^)]) %c", &state) == 1 && state == 'Z';
        if (file)
            fclose(file);
    }
    return dead;
}

static long now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static int look(long exec_ns)
{
    sigset_t pending;

    if (now_ns() - exec_ns > LATE_NS)
        close(open("late", O_WRONLY | O_CREAT, 0600));
    signal(SIGCHLD, on_child);
    int result = poll(NULL, 0, 300);
    sigpending(&pending);
    printf("poll %d, came %d, pending %d, dead %d\n", result, (int)came,
           sigismember(&pending, SIGCHLD), dead_children());
    return 0;
}

int main(int argc, char **argv)
{
    sigset_t set;

    char moment[24];

    if (argc > 1 && !strcmp(argv[1], "look"))
        return look(argument(argc, argv, 2, 0));
    if (argc > 1 && !strcmp(argv[1], "blocked")) {
        sigemptyset(&set);
        sigaddset(&set, SIGCHLD);
        sigprocmask(SIG_BLOCK, &set, NULL);
    }
    work(100000);
    snprintf(moment, sizeof(moment), "%ld", now_ns());
    execl("/proc/self/exe", argv[0], "look", moment, (char *)NULL);
    return 1;
}
