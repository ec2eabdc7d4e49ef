/* Follows the app's credentials and notices its seccomp filters. Runs in the helper; of the app it
 * reads one file of /proc. */
#include "follow.h"

#include <linux/futex.h>

#include "credentials.h"
#include "helper.h"
#include "proc_tasks.h"
#include "sys.h"

#define LOOK_NS 50000000u

/* Of linux/capability.h. */
#define CAN_WRITE_ANYWHERE (1u << 1)  /* CAP_DAC_OVERRIDE */
#define CAN_LOCK_MEMORY    (1u << 14) /* CAP_IPC_LOCK */

/* A descriptor stays good whatever becomes of the helper's rights. */
static int task_open(pid_t pid, pid_t tid)
{
    char path[PROC_PATH_BYTES];
    proc_task_path(path, pid, tid, "/status");
    return sys_open(path, O_RDONLY, 0);
}

/* Sets out from what the helper has been born with. The app's pid is taken from there too, because
 * /proc may be that of another pid namespace. */
static int start_read(struct follower *follower)
{
    int fd = sys_open("/proc/thread-self/status", O_RDONLY, 0);
    if (fd < 0)
        return fd;
    int error = task_status_read(&follower->taken, fd, follower->text);
    sys_close(fd);
    if (error != 0)
        return error;
    follower->app_pid = follower->session->helper.kind == HELPER_THREAD
                            ? follower->taken.process_pid
                            : follower->taken.parent_pid;
    return follower->app_pid > 0 ? 0 : -ESRCH;
}

void follower_init(struct follower *follower, struct publisher *publisher,
                   struct housekeeping *house)
{
    follower->session = publisher->session;
    follower->publisher = publisher;
    follower->house = house;
    follower->looked_ns = sys_clock_ns(CLOCK_MONOTONIC);
    follower->status_fd = start_read(follower);
    if (follower->status_fd == 0)
        follower->status_fd = task_open(follower->app_pid, follower->app_pid);
}

/* Capabilities of a user namespace that the helper is not in are not its own to have. */
static bool is_in_our_user_namespace(const struct follower *follower)
{
    char path[PROC_PATH_BYTES];
    struct stat ours, theirs;
    proc_path(path, follower->app_pid, "/ns/user");
    if (sys4(SYS_newfstatat, AT_FDCWD, "/proc/thread-self/ns/user", &ours, 0) != 0 ||
        sys4(SYS_newfstatat, AT_FDCWD, path, &theirs, 0) != 0)
        return true;
    return ours.st_ino == theirs.st_ino;
}

/*
 * Makes the rings as small as the app's new rights allow. It could not be done later, when the
 * helper may not open events on the app's threads; and what is mapped beyond the limit keeps
 * threads that are born later from mapping any.
 */
static void rings_fit(struct follower *follower)
{
    struct threads *threads = &follower->publisher->collector->threads;
    uint64_t bytes = threads_budget_bytes(follower->seen.effective & CAN_LOCK_MEMORY);
    if (bytes >= threads->plan.budget_bytes)
        return;
    threads->plan.budget_bytes = bytes;
    housekeeping_do(follower->house, &follower->session->mailbox);
}

/* Gets ready, while it still may, what the work left to do needs. */
static void prepare(struct follower *follower)
{
    const struct task_status *seen = &follower->seen;
    struct publisher *publisher = follower->publisher;
    rings_fit(follower);
    publisher_hold_kernel_symbols(publisher);
    if ((seen->effective & CAN_WRITE_ANYWHERE) != 0 ||
        task_status_same_files(seen, &follower->taken))
        return;
    char directory[OUTPATH_BYTES];
    publisher_directory(publisher, directory);
    if (!credentials_may_write(seen, directory))
        publisher_reserve(publisher);
}

static void credentials_follow(struct follower *follower)
{
    prepare(follower);
    credentials_take(&follower->seen, &follower->session->undumping);
    helper_parent_watch(&follower->session->helper);
    /* What is kept of filters is of the beginning. */
    follower->seen.seccomp_mode = follower->taken.seccomp_mode;
    follower->seen.seccomp_filters = follower->taken.seccomp_filters;
    follower->taken = follower->seen;
}

static void seccomp_notice(struct follower *follower)
{
    const struct task_status *seen = &follower->seen, *before = &follower->taken;
    if (seen->seccomp_mode != before->seccomp_mode ||
        seen->seccomp_filters > before->seccomp_filters)
        __atomic_store_n(&follower->session->hushed, 1, __ATOMIC_SEQ_CST);
}

/* Once the first thread has ended its file tells of old times: goes over to that of another. */
static void status_change(struct follower *follower)
{
    const struct threads *threads = &follower->publisher->collector->threads;
    for (uint32_t i = 0; i < threads->used; i++) {
        const struct thread *thread = threads_at(threads, i);
        if (thread->tid == 0 || thread->dead || thread->tid == follower->session->app_pid)
            continue;
        int fd = task_open(follower->app_pid, thread->tid);
        if (fd < 0)
            continue;
        sys_close(follower->status_fd);
        follower->status_fd = fd;
        return;
    }
}

static bool status_read(struct follower *follower)
{
    int error = task_status_read(&follower->seen, follower->status_fd, follower->text);
    if (error == -ESRCH || (error == 0 && follower->seen.is_zombie)) {
        status_change(follower);
        error = task_status_read(&follower->seen, follower->status_fd, follower->text);
    }
    return error == 0;
}

static void look(struct follower *follower)
{
    if (follower->status_fd < 0 || !status_read(follower))
        return;
    seccomp_notice(follower);
    if (credentials_are_privileged() && !is_in_our_user_namespace(follower))
        follower->seen.inheritable = follower->seen.permitted = follower->seen.effective = 0;
    if (!task_status_same_credentials(&follower->seen, &follower->taken))
        credentials_follow(follower);
}

void follower_look(struct follower *follower, bool at_once)
{
    struct session *session = follower->session;
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    uint32_t asked = __atomic_load_n(&session->follow_asked, __ATOMIC_ACQUIRE);
    bool waits = asked != session->follow_answered;
    if (!at_once && !waits && now_ns - follower->looked_ns < LOOK_NS)
        return;
    follower->looked_ns = now_ns;
    look(follower);
    if (!waits)
        return;
    __atomic_store_n(&session->follow_answered, asked, __ATOMIC_RELEASE);
    sys3(SYS_futex, &session->follow_answered, FUTEX_WAKE, INT32_MAX);
}
