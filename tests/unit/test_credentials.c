/* credentials: children of root that become somebody else. Skipped for ordinary users. */
#include "credentials.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "refusal.h"

#define USER  65534u
#define BIND  (1ull << CAP_NET_BIND_SERVICE)
#define ADMIN (1ull << CAP_SYS_ADMIN)

#define ROUNDS 2000

static struct undumping quiet = {7, 7};

static char directory[] = "/tmp/selfsample-credentials-XXXXXX";

static struct task_status now(void)
{
    static char buffer[TASK_STATUS_BYTES];
    struct task_status status = {0};
    int fd = open("/proc/self/status", O_RDONLY);
    task_status_read(&status, fd, buffer);
    close(fd);
    return status;
}

static struct task_status user(uint64_t capabilities)
{
    struct task_status wanted = {.permitted = capabilities, .effective = capabilities};
    for (unsigned i = 0; i < TASK_IDENTITIES; i++)
        wanted.uids[i] = wanted.gids[i] = USER;
    wanted.group_count = 2;
    wanted.groups[0] = 7;
    wanted.groups[1] = 12;
    return wanted;
}

static bool takes(const struct task_status *wanted)
{
    struct task_status have;
    if (credentials_take(wanted, &quiet) != 0)
        return false;
    have = now();
    return task_status_same_credentials(wanted, &have);
}

static int become_user(void)
{
    struct task_status root = now(), wanted = user(0);
    if (!takes(&wanted))
        return 1;
    if (credentials_are_privileged())
        return 2;
    credentials_take(&root, &quiet); /* there is no way back */
    struct task_status have = now();
    return task_status_same_credentials(&wanted, &have) ? 0 : 3;
}

TEST(for_good)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(become_user), 0);
}

static int come_back(void)
{
    struct task_status root = now(), wanted = user(root.permitted);
    wanted.uids[TASK_SAVED] = 0;
    wanted.effective = 0;
    wanted.gids[TASK_SAVED] = 0;
    if (!takes(&wanted))
        return 1;
    return takes(&root) ? 0 : 2;
}

TEST(there_and_back_by_the_saved_user)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(come_back), 0);
}

/* Two steps of the app's at once: groups can only be set by rights that are not in force. */
static int come_back_to_more(void)
{
    struct task_status root = now(), wanted = user(root.permitted);
    wanted.uids[TASK_SAVED] = 0;
    wanted.effective = 0;
    if (!takes(&wanted))
        return 1;
    root.group_count = 1;
    root.groups[0] = 3;
    return takes(&root) ? 0 : 2;
}

TEST(rights_that_are_permitted_are_used)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(come_back_to_more), 0);
}

static int keep_one(void)
{
    struct task_status wanted = user(BIND);
    if (!takes(&wanted))
        return 1;
    wanted = user(0);
    wanted.permitted = BIND; /* not in force, and then again */
    if (!takes(&wanted))
        return 2;
    wanted = user(BIND);
    if (!takes(&wanted))
        return 3;
    wanted = user(BIND | ADMIN);
    credentials_take(&wanted, &quiet);
    return now().permitted == BIND ? 0 : 4;
}

TEST(capabilities_that_are_kept)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(keep_one), 0);
}

static int file_system_user(void)
{
    struct task_status wanted = now();
    wanted.uids[TASK_FS] = wanted.gids[TASK_FS] = USER;
    wanted.effective &= ~0x10000000full; /* the kernel takes these off for other users of files */
    return takes(&wanted) ? 0 : 1;
}

TEST(users_of_files)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(file_system_user), 0);
}

static int stay_dumpable(void)
{
    struct task_status wanted = user(0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    if (!takes(&wanted) || prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 1)
        return 1;
    return 0;
}

static int stay_undumpable(void)
{
    struct task_status wanted = user(0);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    return takes(&wanted) && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0 : 1;
}

TEST(the_memory_stays_what_it_was)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(stay_dumpable), 0);
    CHECK_I64(in_child(stay_undumpable), 0);
}

/* As the hook on prctl does it. */
static void *undump(void *context)
{
    struct undumping *undumping = context;
    __atomic_add_fetch(&undumping->begun, 1, __ATOMIC_SEQ_CST);
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    __atomic_add_fetch(&undumping->ended, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

static int undump_meanwhile(void)
{
    struct undumping undumping = {0};
    struct task_status same = now();
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t thread;
        prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
        if (pthread_create(&thread, NULL, undump, &undumping) != 0)
            return 1;
        while (i % 2 == 0 && __atomic_load_n(&undumping.begun, __ATOMIC_SEQ_CST) <= (uint32_t)i)
            ;
        credentials_take(&same, &undumping);
        pthread_join(thread, NULL);
        if (prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0)
            return 2;
    }
    return 0;
}

TEST(what_the_app_makes_undumpable_meanwhile_stays_so)
{
    CHECK_I64(in_child(undump_meanwhile), 0);
}

static int undump_begun(void)
{
    const struct undumping begun = {.begun = 1};
    struct task_status wanted = user(0);
    prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
    return credentials_take(&wanted, &begun) == 0 && prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) == 0 ? 0
                                                                                             : 1;
}

TEST(in_the_midst_of_the_apps_call_nothing_is_set_back)
{
    if (geteuid() != 0)
        SKIP("not root");
    CHECK_I64(in_child(undump_begun), 0);
}

static int ask_closed(void)
{
    struct task_status wanted = user(0);
    chmod(directory, 0755);
    if (credentials_may_write(&wanted, directory))
        return 1;
    return takes(&wanted) ? 0 : 2;
}

static int ask_open(void)
{
    struct task_status wanted = user(0);
    chmod(directory, 01777);
    if (!credentials_may_write(&wanted, directory))
        return 1;
    return takes(&wanted) ? 0 : 2;
}

static int ask_group(void)
{
    struct task_status wanted = user(0);
    if (chown(directory, 0, 12) != 0 || chmod(directory, 0775) != 0)
        return 3;
    if (!credentials_may_write(&wanted, directory))
        return 1;
    return takes(&wanted) ? 0 : 2;
}

TEST(who_may_write_where)
{
    if (geteuid() != 0)
        SKIP("not root");
    REQUIRE(mkdtemp(directory) != NULL);
    CHECK_I64(in_child(ask_closed), 0);
    CHECK_I64(in_child(ask_open), 0);
    CHECK_I64(in_child(ask_group), 0);
    rmdir(directory);
}
