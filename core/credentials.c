/* Sets ids and capabilities by raw system calls. Runs in the helper; never touches the app's. */
#include "credentials.h"

#include <linux/capability.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "sys.h"

#define UNCHANGED (-1)

struct capabilities {
    uint64_t inheritable, permitted, effective;
};

/* The words of capset(2): the low halves of the three sets, then the high ones. */
static int capabilities_call(long number, struct capabilities *sets)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct words[_LINUX_CAPABILITY_U32S_3];
    for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++)
        words[i] =
            (struct __user_cap_data_struct){.effective = (uint32_t)(sets->effective >> 32 * i),
                                            .permitted = (uint32_t)(sets->permitted >> 32 * i),
                                            .inheritable = (uint32_t)(sets->inheritable >> 32 * i)};
    int result = (int)sys2(number, &header, words);
    *sets = (struct capabilities){0};
    for (unsigned i = 0; result == 0 && i < _LINUX_CAPABILITY_U32S_3; i++) {
        sets->effective |= (uint64_t)words[i].effective << 32 * i;
        sets->permitted |= (uint64_t)words[i].permitted << 32 * i;
        sets->inheritable |= (uint64_t)words[i].inheritable << 32 * i;
    }
    return result;
}

static struct capabilities capabilities_now(void)
{
    struct capabilities sets = {0};
    capabilities_call(SYS_capget, &sets);
    return sets;
}

/* What is permitted may be made effective at any time. */
static void capabilities_raise(void)
{
    struct capabilities sets = capabilities_now();
    if (sets.effective == sets.permitted)
        return;
    sets.effective = sets.permitted;
    capabilities_call(SYS_capset, &sets);
}

static int capabilities_lower(const struct task_status *wanted)
{
    struct capabilities sets = capabilities_now();
    sets.inheritable = wanted->inheritable & (sets.inheritable | sets.permitted);
    sets.permitted &= wanted->permitted;
    sets.effective = sets.permitted & wanted->effective;
    return capabilities_call(SYS_capset, &sets);
}

bool credentials_are_privileged(void)
{
    return capabilities_now().permitted != 0;
}

/* Returns what FIRST is, if that is an error already. */
static int first_error(int first, long next)
{
    return first != 0 || next >= 0 ? first : (int)next;
}

/* To set the same again would need a right that it may not have. */
static int groups_take(const struct task_status *wanted)
{
    uint32_t groups[TASK_STATUS_GROUPS_MAX];
    long count = sys2(SYS_getgroups, TASK_STATUS_GROUPS_MAX, groups);
    if (count == (long)wanted->group_count &&
        memcmp(groups, wanted->groups, wanted->group_count * sizeof groups[0]) == 0)
        return 0;
    return (int)sys2(SYS_setgroups, wanted->group_count, wanted->groups);
}

static int ids_take(const struct task_status *wanted)
{
    const uint32_t *gid = wanted->gids, *uid = wanted->uids;
    int error = groups_take(wanted);
    error = first_error(error,
                        sys3(SYS_setresgid, gid[TASK_REAL], gid[TASK_EFFECTIVE], gid[TASK_SAVED]));
    sys1(SYS_setfsgid, gid[TASK_FS]);
    error = first_error(error,
                        sys3(SYS_setresuid, uid[TASK_REAL], uid[TASK_EFFECTIVE], uid[TASK_SAVED]));
    sys1(SYS_setfsuid, uid[TASK_FS]);
    return error;
}

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_SEQ_CST);
}

/* BEGUN calls had ended before it was seen that the memory is dumpable. So one that comes before it
 * is set, and would be undone, has been counted by the second look. */
static void dumpable_restore(const struct undumping *undumping, uint32_t begun)
{
    if (load(&undumping->begun) != begun)
        return;
    sys2(SYS_prctl, PR_SET_DUMPABLE, 1);
    if (load(&undumping->begun) != begun)
        sys2(SYS_prctl, PR_SET_DUMPABLE, 0);
}

int credentials_take(const struct task_status *wanted, const struct undumping *undumping)
{
    uint32_t ended = load(&undumping->ended), begun = load(&undumping->begun);
    bool restore = begun == ended && sys2(SYS_prctl, PR_GET_DUMPABLE, 0) == 1;
    capabilities_raise();
    /* Else a change of users would drop those that the app may have kept. */
    sys2(SYS_prctl, PR_SET_KEEPCAPS, 1);
    int error = ids_take(wanted);
    sys2(SYS_prctl, PR_SET_KEEPCAPS, 0);
    error = first_error(error, capabilities_lower(wanted));
    if (restore)
        dumpable_restore(undumping, begun);
    return error;
}

bool credentials_may_write(const struct task_status *wanted, const char *directory)
{
    capabilities_raise();
    sys2(SYS_prctl, PR_SET_KEEPCAPS, 1);
    groups_take(wanted);
    /* The call judges by the real ids. */
    sys3(SYS_setresgid, wanted->gids[TASK_FS], UNCHANGED, UNCHANGED);
    sys3(SYS_setresuid, wanted->uids[TASK_FS], UNCHANGED, UNCHANGED);
    return sys3(SYS_faccessat, AT_FDCWD, directory, W_OK | X_OK) == 0;
}
