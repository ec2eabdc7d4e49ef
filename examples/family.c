/*
 * A process tree whose members end in all the ways that usually lose a profile: one child leaves by
 * _exit, one is killed by its parent, one becomes another program. Every one of them leaves a file.
 *
 *     cc -O1 -g -o family family.c && ./family
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) static unsigned long burn(unsigned millions)
{
    unsigned long x = 88172645463325252u + sink;
    for (unsigned long i = 0; i < millions * 1000000ul; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    return x;
}

/* What each does before it ends; a function of its own, so that the profile tells them apart. */
__attribute__((noinline)) static void work_then_exit(void)
{
    sink = burn(100);
    _exit(0); /* no exit handlers, no destructors */
}

__attribute__((noinline)) static void work_for_ever(void)
{
    for (;;)
        sink = burn(10);
}

__attribute__((noinline)) static void work_then_exec(char *program)
{
    sink = burn(100);
    char *arguments[] = {program, "successor", NULL};
    execv(program, arguments);
    _exit(127);
}

__attribute__((noinline)) static void work_as_successor(void)
{
    sink = burn(200);
}

static pid_t child_start(void (*work)(char *), char *program)
{
    pid_t pid = fork();
    if (pid == 0) {
        work(program);
        _exit(1);
    }
    return pid;
}

static void exiting(char *program)
{
    (void)program;
    work_then_exit();
}

static void endless(char *program)
{
    (void)program;
    work_for_ever();
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "successor") == 0) {
        work_as_successor();
        return 0;
    }
    pid_t leaver = child_start(exiting, argv[0]);
    pid_t victim = child_start(endless, argv[0]);
    pid_t changer = child_start(work_then_exec, argv[0]);
    printf("%d leaves by _exit, %d is killed, %d execs\n", (int)leaver, (int)victim, (int)changer);
    sink = burn(100);
    waitpid(leaver, NULL, 0);
    waitpid(changer, NULL, 0);
    kill(victim, SIGKILL);
    waitpid(victim, NULL, 0);
    return 0;
}
