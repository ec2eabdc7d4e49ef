/*
 * The hooks on the two ways into seccomp, prctl and syscall: from just before the app enters it, no
 * system call of ours is made in its threads, since its filter may kill for it. (libc has no
 * function seccomp; libseccomp calls these two.) They also count the calls that make the memory
 * undumpable, for the helper.
 *
 * Runs in the app's threads. Every other call goes straight on. Leaves errno alone.
 */
#include <stdbool.h>
#include <stddef.h>
#include <sys/syscall.h>

#include "hooks.h"

#include "../core/arch.h"

/* Of linux/prctl.h and linux/seccomp.h. */
#define PRCTL_DUMPABLE    4
#define PRCTL_SECCOMP     22
#define PRCTL_MODE_STRICT 1
#define PRCTL_MODE_FILTER 2
#define SECCOMP_TO_STRICT 0
#define SECCOMP_TO_FILTER 1

#define TEXT(value)  #value
#define TEXT_(value) TEXT(value)

/* The headers of libc declare prctl with "..."; all its arguments are passed on. */
typedef int prctl_function(int, unsigned long, unsigned long, unsigned long, unsigned long);
typedef long syscall_function(long, ...);

prctl_function hook_prctl __asm__("prctl") HOOK_EXPORT;

static prctl_function *real_prctl;
syscall_function *hooks_real_syscall;

static long syscall_refuse(long number, ...)
{
    (void)number;
    return hook_refuse();
}

syscall_function *hooks_find_syscall(void)
{
    syscall_function *real = HOOK_REAL(hooks_real_syscall, "syscall");
    return real != NULL ? real : syscall_refuse;
}

/* Programs ask by wrong arguments what the kernel can do; that is not entering it. */
static bool enters_by_prctl(int option, unsigned long mode, unsigned long filter)
{
    return option == PRCTL_SECCOMP &&
           (mode == PRCTL_MODE_STRICT || (mode == PRCTL_MODE_FILTER && filter != 0));
}

static bool enters_by_syscall(long operation, long flags, long filter)
{
    return (operation == SECCOMP_TO_STRICT && flags == 0 && filter == 0) ||
           (operation == SECCOMP_TO_FILTER && filter != 0);
}

static bool undumps(int option, unsigned long value)
{
    return option == PRCTL_DUMPABLE && value == 0;
}

static int undump(prctl_function *real, unsigned long b, unsigned long c, unsigned long d)
{
    __atomic_add_fetch(&session.undumping.begun, 1, __ATOMIC_SEQ_CST);
    int result = real(PRCTL_DUMPABLE, 0, b, c, d);
    __atomic_add_fetch(&session.undumping.ended, 1, __ATOMIC_SEQ_CST);
    return result;
}

static int enter(prctl_function *real, unsigned long a, unsigned long b, unsigned long c,
                 unsigned long d)
{
    bool hushed = session_hush(&session);
    int result = real(PRCTL_SECCOMP, a, b, c, d);
    if (result != 0 && !hushed)
        session_unhush(&session);
    return result;
}

int hook_prctl(int option, unsigned long a, unsigned long b, unsigned long c, unsigned long d)
{
    if (HOOK_REAL(real_prctl, "prctl") == NULL)
        return hook_refuse();
    if (undumps(option, a))
        return undump(real_prctl, b, c, d);
    if (__builtin_expect(enters_by_prctl(option, a, b), 0))
        return enter(real_prctl, a, b, c, d);
    return real_prctl(option, a, b, c, d);
}

ARCH_HOOK_FORWARD("syscall", TEXT_(SYS_seccomp), "hooks_syscall_seccomp", TEXT_(SYS_prctl),
                  "hooks_syscall_prctl", "hooks_real_syscall", "hooks_find_syscall");

long hooks_syscall_seccomp(long number, long operation, long flags, long filter)
{
    syscall_function *real = hooks_find_syscall();
    bool entering = enters_by_syscall(operation, flags, filter);
    bool hushed = entering && session_hush(&session);
    long result = real(number, operation, flags, filter);
    if (result < 0 && entering && !hushed) /* with a listener the result is its descriptor */
        session_unhush(&session);
    return result;
}

static int prctl_by_syscall(int option, unsigned long a, unsigned long b, unsigned long c,
                            unsigned long d)
{
    return (int)hooks_find_syscall()(SYS_prctl, option, a, b, c, d);
}

long hooks_syscall_prctl(long number, long option, unsigned long a, unsigned long b,
                         unsigned long c, unsigned long d)
{
    if (undumps((int)option, a))
        return undump(prctl_by_syscall, b, c, d);
    if (__builtin_expect(enters_by_prctl((int)option, a, b), 0))
        return enter(prctl_by_syscall, a, b, c, d);
    return hooks_find_syscall()(number, option, a, b, c, d);
}
