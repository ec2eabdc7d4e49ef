/*
 * Forks argv[1] children, a few at a time; each computes argv[2] us in in_child() and leaves by
 * _exit. The parent computes 400 ms of its own, half before and half after.
 */
#include "burn.h"

#include <sys/wait.h>

BURNER(in_parent)
BURNER(in_child)

int main(int argc, char **argv)
{
    long children = argument(argc, argv, 1, 200), child_us = argument(argc, argv, 2, 20000);
    int status, failures = 0;

    in_parent(200000);
    for (long i = 0; i < children; i++) {
        pid_t pid = fork();

        if (pid == 0) {
            in_child(child_us);
            _exit((int)(i % 7));
        }
        if (waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != i % 7)
            failures++;
    }
    in_parent(200000);
    printf("%ld children, %d failures\n", children, failures);
    return failures != 0;
}
