/*
 * Starts `true` argv[1] times each by vfork + exec, posix_spawn and system, computing in between.
 * Then tells what a profiler does in a child that is made without libc's fork, and has a thread.
 *
 * Build: -pthread
 */
#include "burn.h"
#include "inventory.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

extern char **environ;

BURNER(in_parent)

static char *const true_argv[] = {"true", NULL};

static int reap(pid_t pid)
{
    int status;

    return waitpid(pid, &status, 0) == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int by_vfork(void)
{
    pid_t pid = vfork();

    if (pid == 0) {
        execv("/bin/true", true_argv);
        _exit(127);
    }
    return reap(pid);
}

static int by_vfork_failing(void)
{
    int status;
    pid_t pid = vfork();

    if (pid == 0) {
        execv("/nonexistent/program", true_argv);
        _exit(9);
    }
    return waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 9;
}

static int by_spawn(void)
{
    pid_t pid;

    return posix_spawn(&pid, "/bin/true", NULL, NULL, true_argv, environ) == 0 && reap(pid);
}

static void *nothing(void *unused)
{
    return unused;
}

/* How many events are sampling in the child: its exit status. */
static int events_of_raw_clone(void)
{
    int status = -1;
    pthread_t thread;
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0) {
        if (pthread_create(&thread, NULL, nothing, NULL) != 0)
            _exit(99);
        pthread_join(thread, NULL);
        exit(mappings_with("[perf_event]"));
    }
    waitpid(pid, &status, 0);
    return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
    long times = argument(argc, argv, 1, 100);
    int good = 0;

    for (long i = 0; i < times; i++) {
        good += by_vfork() + by_vfork_failing() + by_spawn() + (system("true") == 0);
        in_parent(500000 / times);
    }
    printf("%d of %ld, events of a raw clone: %d\n", good, times * 4, events_of_raw_clone());
    return 0;
}
