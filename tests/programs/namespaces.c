/*
 * Calls that Linux grants to programs of one thread only, and what came of them; then burns in
 * work() argv[2] us. argv[1]:
 *
 *   user    makes a user namespace of its own
 *   join    joins the user namespace of a child
 *   mount   makes a mount namespace and a root of its own
 *   nested  has a child, made by a raw clone, in a pid namespace of its own, that exits
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
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

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Where this is the first process of its namespace, the child's number is the same. */
static void nested(void)
{
    int status = -1;
    double start_s = now_s();
    pid_t pid = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, NULL, NULL, NULL, NULL);
    if (pid == 0)
        exit(getpid());
    waitpid(pid, &status, 0);
    printf("child: %d, in time: %d\n", WEXITSTATUS(status), now_s() - start_s < 1.5);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    if (strcmp(argv[1], "user") == 0)
        say("unshare", unshare(CLONE_NEWUSER));
    else if (strcmp(argv[1], "join") == 0)
        join();
    else if (strcmp(argv[1], "nested") == 0)
        nested();
    else
        say("unshare", unshare(CLONE_NEWNS | CLONE_FS | CLONE_FILES));
    work(argument(argc, argv, 2, 200000));
    return 0;
}
