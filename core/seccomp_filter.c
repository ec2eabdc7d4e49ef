/*
 * Which system calls the helper may make, and what a foreign filter makes of ours. The filter is
 * set and bears in the helper; the question about inherited filters is the app's, in the
 * constructor. Never allocates, never touches errno.
 */
#include "seccomp_filter.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "sys.h"

#define INSTRUCTIONS_MAX 180u
#define INTERRUPTS_MAX   100000u

/* Allowed whatever the arguments are; the frequent ones first. */
static const int allowed_calls[] = {
    SYS_futex,          SYS_clock_gettime, SYS_getppid,         SYS_read,
    SYS_pread64,        SYS_openat,        SYS_close,           SYS_timer_settime,
    SYS_fstat,          SYS_newfstatat,    SYS_munmap,          SYS_madvise,
    SYS_write,          SYS_pwrite64,      SYS_perf_event_open, SYS_getdents64,
    SYS_rt_sigprocmask, SYS_rt_sigreturn,  SYS_restart_syscall, SYS_getpid,
    SYS_gettid,         SYS_geteuid,       SYS_timer_create,    SYS_dup,
    SYS_writev,         SYS_ppoll,         SYS_getcwd,          SYS_fstatfs,
    SYS_memfd_create,   SYS_linkat,        SYS_unlinkat,        SYS_renameat,
    SYS_renameat2,      SYS_faccessat,     SYS_ftruncate,       SYS_lseek,
    SYS_exit_group,     SYS_exit,          SYS_mincore,         SYS_pipe2,
    SYS_capget,         SYS_capset,        SYS_getgroups,       SYS_setgroups,
    SYS_setresuid,      SYS_setresgid,     SYS_setfsuid,        SYS_setfsgid,
    SYS_fsetxattr,      SYS_readlinkat,    SYS_setpgid,         SYS_setsid,
};

/* Made before the filter is set, or in the app's threads. */
static const int early_calls[] = {
    SYS_rt_sigaction,    SYS_setpriority,
    SYS_getpriority,     SYS_sched_setattr,
    SYS_prlimit64,       SYS_prctl,
    SYS_ioctl,           SYS_mmap,
    SYS_mprotect,        SYS_wait4,
    SYS_uname,           SYS_process_vm_readv,
    SYS_seccomp,         SYS_dup3,
    SYS_fchmod,          SYS_unshare,
    SYS_clone,           SYS_waitid,
    SYS_getpgid,         SYS_clock_getres,
    SYS_timer_delete,    SYS_sched_yield,
    SYS_sigaltstack,     SYS_rt_sigtimedwait,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo,
    SYS_getrusage,
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

struct program {
    struct sock_filter code[INSTRUCTIONS_MAX];
    unsigned short length;
};

static void put(struct program *program, unsigned short code, uint32_t value, unsigned if_true,
                unsigned if_false)
{
    program->code[program->length++] = (struct sock_filter){
        .code = code, .jt = (uint8_t)if_true, .jf = (uint8_t)if_false, .k = value};
}

static void put_return(struct program *program, bool allow)
{
    put(program, BPF_RET | BPF_K, allow ? SECCOMP_RET_ALLOW : SECCOMP_RET_ERRNO | EPERM, 0, 0);
}

static void put_load(struct program *program, size_t offset)
{
    put(program, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void put_allow_call(struct program *program, int number)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    put_return(program, true);
}

/* Loads a half of an argument. In memory the low half comes first, as on every processor of
 * core/arch.h. */
static void put_load_argument(struct program *program, unsigned index, bool high_half)
{
    put_load(program, offsetof(struct seccomp_data, args) + index * 8 + (high_half ? 4 : 0));
}

/*
 * Behind a call's number: if it is NUMBER, its argument INDEX, masked, has to be one of the VALUES.
 * Only the low half is looked at: int arguments, or bits that lie there.
 */
static void put_call_with(struct program *program, int number, unsigned index, uint32_t mask,
                          const uint32_t *values, unsigned count)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 3 + count + 1);
    put_load_argument(program, index, false);
    put(program, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    for (unsigned i = 0; i < count; i++)
        put(program, BPF_JMP | BPF_JEQ | BPF_K, values[i], count - i, 0);
    put_return(program, false);
    put_return(program, true);
}

/* prlimit64(own process, any, NULL, ...): asks, and sets nothing. */
static void put_limits_asked(struct program *program)
{
    put(program, BPF_JMP | BPF_JEQ | BPF_K, SYS_prlimit64, 0, 8);
    put_load_argument(program, 0, false);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 5);
    put_load_argument(program, 2, false);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 3);
    put_load_argument(program, 2, true);
    put(program, BPF_JMP | BPF_JEQ | BPF_K, 0, 0, 1);
    put_return(program, true);
    put_return(program, false);
}

static void calls_with_arguments_put(struct program *program)
{
    const uint32_t nothing = 0;
    const uint32_t own_pid = (uint32_t)sys0(SYS_getpid);
    const uint32_t event_requests = '$' << 8; /* _IO('$', ...): of perf events alone */
    const uint32_t options[] = {PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_GET_DUMPABLE,
                                PR_SET_DUMPABLE};
    put_call_with(program, SYS_process_vm_readv, 0, ~0u, &own_pid, 1);
    put_call_with(program, SYS_mmap, 2, PROT_EXEC, &nothing, 1);
    put_call_with(program, SYS_mprotect, 2, PROT_EXEC, &nothing, 1);
    put_call_with(program, SYS_ioctl, 1, 0xff00, &event_requests, 1);
    put_call_with(program, SYS_prctl, 0, ~0u, options, COUNT(options));
    put_limits_asked(program);
}

static void program_make(struct program *program)
{
    program->length = 0;
    put_load(program, offsetof(struct seccomp_data, arch));
    put(program, BPF_JMP | BPF_JEQ | BPF_K, ARCH_AUDIT, 1, 0);
    put_return(program, false);
    put_load(program, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < COUNT(allowed_calls); i++)
        put_allow_call(program, allowed_calls[i]);
    calls_with_arguments_put(program);
    put_return(program, false);
}

_Static_assert(4 + 2 * COUNT(allowed_calls) + 5 * 6 + 3 + 9 + 1 <= INSTRUCTIONS_MAX, "room");

int seccomp_filter_install(void)
{
    struct program program;
    program_make(&program);
    const struct sock_fprog given = {.len = program.length, .filter = program.code};
    long result = sys5(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (result == 0)
        result = sys3(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &given);
    return (int)result;
}

/* With all arguments -1 each of these calls fails or changes nothing. */
static void call_each(const int *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (numbers[i] != SYS_exit_group && numbers[i] != SYS_exit &&
            numbers[i] != SYS_rt_sigreturn && numbers[i] != SYS_restart_syscall)
            sys6(numbers[i], -1, -1, -1, -1, -1, -1);
}

int seccomp_filter_inherited_kills(void)
{
    int status = 0;
    long got, pid = sys5(SYS_clone, 0, NULL, NULL, NULL, NULL); /* fork, with exit signal 0 */
    if (pid == 0) {
        call_each(allowed_calls, COUNT(allowed_calls));
        call_each(early_calls, COUNT(early_calls));
        sys1(SYS_exit_group, 0);
    }
    if (pid < 0)
        return 0;
    unsigned interrupts = 0; /* by the app's own signals */
    do
        got = sys4(SYS_wait4, pid, &status, __WCLONE, NULL);
    while (got == -EINTR && interrupts++ < INTERRUPTS_MAX);
    return got == pid && WIFSIGNALED(status);
}
