/*
 * Tests of what happens where the kernel refuses a system call: in a child, since that can't be
 * undone.
 */
#ifndef SELFSAMPLE_TESTS_UNIT_REFUSAL_H
#define SELFSAMPLE_TESTS_UNIT_REFUSAL_H

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What a child, with something done to it that cannot be undone, finds; 77: it cannot be done here.
 */
__attribute__((unused)) static int in_child(int (*act)(void))
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        _exit(act());
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

/* From now on CODE judges system calls. 0, or -1 where there are no filters. */
__attribute__((unused)) static int filter_begin(struct sock_filter *code, size_t count)
{
    struct sock_fprog program = {(unsigned short)count, code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -1;
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* From now on ACTION, one of seccomp's, is taken at the call NUMBER. 0, or -1 as above. */
__attribute__((unused)) static int filter_call(unsigned number, unsigned action)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, action),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_begin(code, sizeof code / sizeof *code);
}

/* From now on the call NUMBER is answered with ERROR. */
__attribute__((unused)) static int refuse(unsigned number, unsigned error)
{
    return filter_call(number, SECCOMP_RET_ERRNO | error);
}

#endif
