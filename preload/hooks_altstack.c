/*
 * The hook on sigaltstack: a thread whose alternate stack has no room for the timers' signal gets
 * none while it has that stack.
 *
 * Runs in the app's threads. Allocates nothing, takes no lock, leaves errno to the real function.
 */
#include <signal.h>

#include "../core/sys.h"
#include "hooks.h"
#include "init.h"

/* Of the calling thread, as it was last noted. */
static __thread __attribute__((tls_model("initial-exec"))) bool has_small;

/* In the process itself: children that share or have copied its memory have stacks of their own,
 * and no timers. Once the session is hushed there are none either. */
static bool is_concerned(void)
{
    return library_state != LIBRARY_STAYS_OUT && !session_is_hushed(&session) &&
           session.process_pid == (pid_t)sys0(SYS_getpid);
}

static void note(bool small)
{
    pid_t tid = (pid_t)sys0(SYS_gettid);
    has_small = small;
    small_stacks_note(&session.timers.small_stacks, tid, small);
    timers_spare(&session.timers, tid, small);
}

/* Can the kernel read STACK? It looks at a set of signals before it finds that there is no such way
 * to change the mask. */
static bool is_readable(const stack_t *stack)
{
    const uint8_t *first = (const uint8_t *)stack, *last = (const uint8_t *)(stack + 1) - 8;
    return sys4(SYS_rt_sigprocmask, -1, first, NULL, 8) != -EFAULT &&
           sys4(SYS_rt_sigprocmask, -1, last, NULL, 8) != -EFAULT;
}

HOOK_EXPORT int sigaltstack(const stack_t *restrict stack, stack_t *restrict old)
{
    static int (*real)(const stack_t *restrict, stack_t *restrict);
    if (HOOK_REAL(real, "sigaltstack") == NULL)
        return hook_refuse();
    if (stack == NULL || !is_concerned() || !is_readable(stack))
        return real(stack, old);
    bool had = has_small, small = small_stack_is(&session.timers.small_stacks, stack);
    if (small && !had) /* before it is in use */
        note(true);
    int result = real(stack, old);
    bool has = result == 0 ? small : had;
    if (has != has_small)
        note(has);
    return result;
}
