/*
 * Helpers of this very process that leave words in its memory. What runs in them calls the kernel
 * only, as all that runs in a helper must.
 */
#ifndef SELFSAMPLE_TESTS_UNIT_HELPER_FIXTURE_H
#define SELFSAMPLE_TESTS_UNIT_HELPER_FIXTURE_H

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "helper.h"
#include "refusal.h"
#include "sys.h"

#define SECOND_NS 1000000000ull

/* A sanitizer that keeps its own notes of each thread knows nothing of the helper. */
#if defined(__SANITIZE_THREAD__)
#define HELPER_IS_A_STRANGER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HELPER_IS_A_STRANGER 1
#endif
#endif
#ifndef HELPER_IS_A_STRANGER
#define HELPER_IS_A_STRANGER 0
#endif

/* What a helper found. */
struct notes {
    uint32_t done;
    uint32_t go;
    int lowest_fd;
    int app_fd_status;
    int stderr_status;
    pid_t pid, parent;
    uint64_t blocked_signals;
    char name[16];
    bool app_was_gone;
    struct helper *helper;
};

static struct helper helper;
static struct notes notes;
static int app_fd = -1; /* a descriptor of the app's */

/* Starts RUN as a helper of a fresh struct. */
static inline void start(void (*run)(void *), enum helper_stderr its_stderr)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_APART, run, &notes, its_stderr) == 0);
}

/* Waits for the helper's end; its wait status. */
static inline int end_status(void)
{
    int status = -1;
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK(waitpid(-1, &status, __WCLONE) > 0); /* it is our only child */
    munmap(helper.memory, helper.memory_bytes);
    return status;
}

static inline void look_around(void *context)
{
    struct notes *found = context;
    helper_settle(found->helper);
    found->pid = (pid_t)sys0(SYS_getpid);
    found->parent = (pid_t)sys0(SYS_getppid);
    found->lowest_fd = sys_open("/dev/null", O_RDONLY, 0);
    found->app_fd_status = (int)sys3(SYS_fcntl, app_fd, F_GETFD, 0);
    found->stderr_status = (int)sys3(SYS_fcntl, 2, F_GETFD, 0);
    sys4(SYS_rt_sigprocmask, SIG_SETMASK, NULL, &found->blocked_signals, 8);
    sys2(SYS_prctl, 16 /* PR_GET_NAME */, found->name);
    found->app_was_gone = helper_app_is_gone(found->helper);
    found->done = 1;
}

/* Checks that ACT, which refuses something to the process that it runs in, returns 0 in a child. */
static inline void check_in_child(int (*act)(void))
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    int status = in_child(act);
    if (status == 77)
        SKIP("it can't be refused here");
    CHECK_I64(status, 0);
}

#endif
