/*
 * Runs argv[3] ... under a filter that answers the errno argv[1] to the system calls argv[2]: names
 * of the table below, separated by commas. As in containers and on kernels that lack them.
 *
 *   apart      clone with memory in common but no thread: the helper's; vfork and its like pass
 *   threads    clone of threads; clone3, whose flags a filter can't see, is ENOSYS with both
 */
#define _GNU_SOURCE
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* AArch64 has only the newer one. */
#ifndef SYS_poll
#define SYS_poll SYS_ppoll
#endif

#define CALL(name)                                                                                 \
    {                                                                                              \
#name, SYS_##name                                                                          \
    }

static const struct {
    const char *name;
    int number;
} calls[] = {
    {"close_range", 436},
    {"clone3", 435},
    CALL(capget),
    CALL(faccessat),
    CALL(fchmod),
    CALL(fstatfs),
    CALL(ftruncate),
    CALL(getcwd),
    CALL(getdents64),
    CALL(getgroups),
    CALL(getppid),
    CALL(getpriority),
    CALL(gettid),
    CALL(linkat),
    CALL(lseek),
    CALL(madvise),
    CALL(memfd_create),
    CALL(mincore),
    CALL(mprotect),
    CALL(newfstatat),
    CALL(perf_event_open),
    CALL(pipe2),
    CALL(poll),
    CALL(prctl),
    CALL(prlimit64),
    CALL(process_vm_readv),
    CALL(pwrite64),
    CALL(readlinkat),
    CALL(renameat),
    CALL(renameat2),
    CALL(sched_setattr),
    CALL(seccomp),
    CALL(setpriority),
    CALL(setpgid),
    CALL(setsid),
    CALL(timer_create),
    CALL(timer_settime),
    CALL(uname),
    CALL(unlinkat),
    CALL(unshare),
    CALL(wait4),
    CALL(writev),
};

static struct sock_filter code[256];
static unsigned short length;
static unsigned answer;

static void put(unsigned short what, unsigned value, unsigned char if_true, unsigned char if_false)
{
    code[length++] = (struct sock_filter){.code = what, .jt = if_true, .jf = if_false, .k = value};
}

static void put_answer(unsigned error)
{
    put(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error, 0, 0);
}

static void put_call(int number, unsigned error)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1);
    put_answer(error);
}

/* A clone whose flags, of those in MASK, are WANTED. */
static void put_clone(unsigned mask, unsigned wanted)
{
    put(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 4);
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0]), 0, 0);
    put(BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    put(BPF_JMP | BPF_JEQ | BPF_K, wanted, 0, 1);
    put_answer(answer);
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    put_call(435, ENOSYS);
}

static int call_number(const char *name)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (strcmp(name, calls[i].name) == 0)
            return calls[i].number;
    fprintf(stderr, "refuse: %s is none of the calls it knows\n", name);
    exit(9);
}

static void refuse(const char *name)
{
    if (strcmp(name, "apart") == 0)
        put_clone(CLONE_VM | CLONE_THREAD | CLONE_VFORK, CLONE_VM);
    else if (strcmp(name, "threads") == 0)
        put_clone(CLONE_THREAD, CLONE_THREAD);
    else
        put_call(call_number(name), answer);
}

static unsigned error_number(const char *name)
{
    static const struct {
        const char *name;
        unsigned number;
    } errors[] = {{"EPERM", EPERM}, {"EACCES", EACCES}, {"ENOSYS", ENOSYS}, {"EINVAL", EINVAL}};

    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        if (strcmp(name, errors[i].name) == 0)
            return errors[i].number;
    fprintf(stderr, "refuse: %s is none of the errors it knows\n", name);
    exit(9);
}

int main(int argc, char **argv)
{
    struct sock_fprog program = {.filter = code};

    if (argc < 4)
        return 9;
    answer = error_number(argv[1]);
    put(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr), 0, 0);
    for (char *name = strtok(argv[2], ","); name != NULL; name = strtok(NULL, ","))
        refuse(name);
    put(BPF_RET | BPF_K, SECCOMP_RET_ALLOW, 0, 0);
    program.len = length;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("refuse");
        return 9;
    }
    execv(argv[3], argv + 3);
    perror(argv[3]);
    return 9;
}
