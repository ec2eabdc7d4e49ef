/*
 * The hooks on waits for whatever child there is, of any kind (__WALL, __WCLONE), as tracers wait:
 * the helper is such a child, does not end before the app does, and is not to be seen. Waits
 * without these flags, which do not see it, and waits for one child or group go straight on.
 *
 * Runs in the app's threads, in signal handlers too. Allocates nothing, takes no lock, leaves errno
 * to the real functions.
 */
#include <errno.h>
#include <linux/futex.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "../core/sys.h"
#include "hooks.h"

/* The helper leaves the app's process group once it is settled: some ms after its start, or as late
 * as a busy machine lets it run. */
#define SETTLE_PART_NS 500000
#define SETTLE_PARTS   20000

static struct {
    pid_t (*waitpid)(pid_t, int *, int);
    pid_t (*wait3)(int *, int, struct rusage *);
    pid_t (*wait4)(pid_t, int *, int, struct rusage *);
    int (*waitid)(idtype_t, id_t, siginfo_t *, int);
} real;

#define REAL(name) HOOK_REAL(real.name, #name)

/* One wait for all children, by whichever function: the child's pid, 0 where none is ready, -1. */
struct wait_call {
    pid_t (*wait)(const struct wait_call *call, int options);
    int *status;
    struct rusage *usage;
    siginfo_t *info;
};

static pid_t by_waitpid(const struct wait_call *call, int options)
{
    return real.waitpid(-1, call->status, options);
}

static pid_t by_wait3(const struct wait_call *call, int options)
{
    return real.wait3(call->status, options, call->usage);
}

static pid_t by_wait4(const struct wait_call *call, int options)
{
    return real.wait4(-1, call->status, options, call->usage);
}

static pid_t by_waitid(const struct wait_call *call, int options)
{
    return real.waitid(P_ALL, 0, call->info, options) != 0 ? -1 : call->info->si_pid;
}

static bool would_find_helper(int options)
{
    return __builtin_expect((options & (__WALL | __WCLONE)) != 0, 0) &&
           session.helper.kind == HELPER_APART && session_is_mine(&session);
}

static bool is_unsettled(pid_t helper, long group)
{
    return __atomic_load_n(&session.helper.tid, __ATOMIC_RELAXED) == (uint32_t)helper &&
           sys1(SYS_getpgid, helper) == group;
}

/* While the helper is in the app's process group it can't be told from other children, and a wait
 * that goes on finds no end where it is the only one. */
static void wait_until_settled(pid_t helper, long group)
{
    static bool never; /* a filter refuses what it does for that */
    const struct timespec part = {0, SETTLE_PART_NS};
    uint32_t nobody = 0;
    for (int i = 0; !never && is_unsettled(helper, group); i++) {
        never = i == SETTLE_PARTS;
        sys4(SYS_futex, &nobody, FUTEX_WAIT, 0, &part);
    }
}

/* Are there children that only these flags show, or tracees, in the app's process group? Those that
 * it has put into other groups are not found. */
static bool has_clones(pid_t helper)
{
    siginfo_t info;
    long group = sys1(SYS_getpgid, 0);
    wait_until_settled(helper, group);
    return sys5(SYS_waitid, P_PGID, group, &info,
                WEXITED | WSTOPPED | WCONTINUED | WNOHANG | WNOWAIT | __WCLONE, NULL) == 0;
}

/* Where the helper alone is left of what the flags show, the wait goes on without them. Tracees are
 * found by any. */
static pid_t wait_for_others(const struct wait_call *call, int options)
{
    pid_t helper = (pid_t)__atomic_load_n(&session.helper.tid, __ATOMIC_RELAXED), child;
    bool alone = !has_clones(helper);
    if (alone && (options & __WALL) != 0)
        return call->wait(call, options & ~(__WALL | __WCLONE));
    do {
        child = call->wait(call, alone ? options | WNOHANG : options);
        if (child == helper && (options & WNOWAIT) != 0) /* killed, and found again otherwise */
            sys4(SYS_wait4, helper, NULL, __WCLONE | WNOHANG, NULL);
    } while (child > 0 && child == helper);
    if (child != 0 || !alone)
        return child;
    errno = ECHILD;
    return -1;
}

HOOK_EXPORT pid_t waitpid(pid_t pid, int *status, int options)
{
    const struct wait_call call = {.wait = by_waitpid, .status = status};
    if (REAL(waitpid) == NULL)
        return hook_refuse();
    if (pid != -1 || !would_find_helper(options))
        return real.waitpid(pid, status, options);
    return wait_for_others(&call, options);
}

HOOK_EXPORT pid_t wait3(int *status, int options, struct rusage *usage)
{
    const struct wait_call call = {.wait = by_wait3, .status = status, .usage = usage};
    if (REAL(wait3) == NULL)
        return hook_refuse();
    if (!would_find_helper(options))
        return real.wait3(status, options, usage);
    return wait_for_others(&call, options);
}

HOOK_EXPORT pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    const struct wait_call call = {.wait = by_wait4, .status = status, .usage = usage};
    if (REAL(wait4) == NULL)
        return hook_refuse();
    if (pid != -1 || !would_find_helper(options))
        return real.wait4(pid, status, options, usage);
    return wait_for_others(&call, options);
}

HOOK_EXPORT int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    siginfo_t own;
    const struct wait_call call = {.wait = by_waitid, .info = info != NULL ? info : &own};
    if (REAL(waitid) == NULL)
        return hook_refuse();
    if (type != P_ALL || !would_find_helper(options))
        return real.waitid(type, id, info, options);
    return wait_for_others(&call, options) < 0 ? -1 : 0;
}
