/*
 * The hooks on the calls that change what the app may do: after one that succeeds, the helper gets
 * the same credentials before the app goes on.
 *
 * Runs in the app's threads, after the real call. Waits for the helper, 1 s at the most; leaves
 * errno alone; allocates nothing. initgroups calls setgroups inside of libc, where no hook sees it.
 */
#include <grp.h>
#include <sys/types.h>
#include <unistd.h>

#include "hooks.h"

int capset(void *header, const void *data);

/* A function NAME of libc's that returns 0 for success. */
#define HOOK(name, parameters, arguments)                                                          \
    HOOK_EXPORT int name parameters                                                                \
    {                                                                                              \
        static int(*real) parameters;                                                              \
        if (HOOK_REAL(real, #name) == NULL)                                                        \
            return hook_refuse();                                                                  \
        int result = real arguments;                                                               \
        if (result == 0)                                                                           \
            session_follow(&session);                                                              \
        return result;                                                                             \
    }

HOOK(setuid, (uid_t uid), (uid))
HOOK(setgid, (gid_t gid), (gid))
HOOK(seteuid, (uid_t effective), (effective))
HOOK(setegid, (gid_t effective), (effective))
HOOK(setreuid, (uid_t uid, uid_t effective), (uid, effective))
HOOK(setregid, (gid_t gid, gid_t effective), (gid, effective))
HOOK(setresuid, (uid_t uid, uid_t effective, uid_t saved), (uid, effective, saved))
HOOK(setresgid, (gid_t gid, gid_t effective, gid_t saved), (gid, effective, saved))
HOOK(setgroups, (size_t count, const gid_t *groups), (count, groups))
HOOK(initgroups, (const char *user, gid_t group), (user, group))
HOOK(capset, (void *header, const void *data), (header, data))
