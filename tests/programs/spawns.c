/*
 * Starts `true` argv[1] times each by vfork + exec, posix_spawn and system, computing in between.
 */
#include "burn.h"

#include <spawn.h>
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

int main(int argc, char **argv)
{
    long times = argument(argc, argv, 1, 100);
    int good = 0;

    for (long i = 0; i < times; i++) {
        good += by_vfork() + by_vfork_failing() + by_spawn() + (system("true") == 0);
        in_parent(500000 / times);
    }
    printf("%d of %ld\n", good, times * 4);
    return 0;
}
