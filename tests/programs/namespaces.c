/*
 * Calls that Linux grants to programs of one thread only, and what came of them; then burns in
 * work() argv[2] us. argv[1]:
 *
 *   user    makes a user namespace of its own
 *   join    joins the user namespace of a child
 *   mount   makes a mount namespace and a root of its own
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "burn.h"

BURNER(work)

static void say(const char *what, int result)
{
    printf("%s: %s\n", what, result == 0 ? "yes" : strerror(errno));
    fflush(stdout);
}

static void join(void)
{
    char path[64], byte;
    int ready[2];

    if (pipe(ready) != 0)
        exit(9);
    pid_t pid = fork();
    if (pid == 0) {
        if (unshare(CLONE_NEWUSER) != 0)
            _exit(1);
        if (write(ready[1], "x", 1) != 1)
            _exit(2);
        for (;;)
            pause();
    }
    if (read(ready[0], &byte, 1) != 1)
        exit(9);
    snprintf(path, sizeof path, "/proc/%d/ns/user", pid);
    int fd = open(path, O_RDONLY);
    say("setns", setns(fd, CLONE_NEWUSER));
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[1], "user") == 0)
        say("unshare", unshare(CLONE_NEWUSER));
    else if (strcmp(argv[1], "join") == 0)
        join();
    else
        say("unshare", unshare(CLONE_NEWNS | CLONE_FS | CLONE_FILES));
    work(argument(argc, argv, 2, 200000));
    return 0;
}
