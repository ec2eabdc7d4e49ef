/* session: what a copy of it in another process is good for. */
#include "session.h"

#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"

static struct session session;

/* As session_start leaves it, with a helper that has ended. */
static void session_make(void)
{
    memset(&session, 0, sizeof session);
    session.app_pid = getpid();
}

/* A child that no hook hears of. What it finds is its exit status. */
static pid_t raw_clone(void)
{
    return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static int status_of(pid_t child)
{
    int status = 0;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

TEST(a_process_made_behind_our_back_is_not_the_sessions)
{
    session_make();
    CHECK(session_is_mine(&session));
    pid_t child = raw_clone();
    if (child == 0)
        _exit(session_is_mine(&session));
    CHECK_I64(status_of(child), 0);
    child = vfork();
    if (child == 0)
        _exit(session_is_mine(&session));
    CHECK_I64(status_of(child), 0);
}

/* No call waits for a helper that it can't have. */
TEST(nothing_is_asked_for_such_a_process)
{
    session_make();
    session.helper.tid = 1; /* one that lives, and answers nobody */
    pid_t child = raw_clone();
    if (child == 0) {
        session_follow(&session);
        session_end(&session);
        bool refused = session_pause(&session, true) == -ESRCH &&
                       session_snapshot(&session, "") == -ESRCH && session_stop(&session) == -ESRCH;
        bool untouched = session.follow_asked == 0 && session.finish_wanted == SESSION_GOES_ON &&
                         session.helper.wakes == 0;
        _exit(refused && untouched ? 0 : 1);
    }
    CHECK_I64(status_of(child), 0);
}

/* Nor does a child that executes something change the clock of its parent's memory. */
TEST(the_clock_before_an_exec_is_the_processs_own)
{
    session_make();
    pid_t child = vfork();
    if (child == 0) {
        session_note_exec(&session);
        _exit(0);
    }
    CHECK_I64(status_of(child), 0);
    CHECK_U64(session.exec_cpu_ns, 0);
    session_note_exec(&session);
    CHECK(session.exec_cpu_ns != 0 && session.exec_tid_ns != 0);
    CHECK_I64(session.exec_tid, getpid());
}

TEST(a_hushed_session_is_nobodys)
{
    session_make();
    session.hushed = 1;
    CHECK(!session_is_mine(&session));
    session.hushed = 0;
    session.app_pid = 0;
    CHECK(!session_is_mine(&session));
}

/* A turn of one that was killed at work has no end. */
TEST(a_fork_asks_no_dead_helper)
{
    session_make();
    session.quiet.turn = 1;
    struct quiet_fork fork = session_quiet(&session);
    CHECK(!fork.is_counted && !fork.waited_enough);
    CHECK_U64(session.quiet.forking[0] + session.quiet.forking[1], 0);
    session_resume(&session, fork);
    session.helper.tid = 1; /* one that lives, and takes its time */
    fork = session_quiet(&session);
    CHECK(fork.is_counted && fork.waited_enough);
    session_resume(&session, fork);
}

/* The copy of libunwind may have a lock that nobody gives back. */
TEST(a_copy_that_is_not_sure_goes_without_libunwind)
{
    static int space;
    session_make();
    session.library.address_space = &space;
    session_abandon(&session, (struct quiet_fork){0});
    CHECK(session.library.address_space == &space);
    session_abandon(&session, (struct quiet_fork){.waited_enough = true});
    CHECK(session.library.address_space == NULL);
    session.library.address_space = &space;
    session.quiet.at_work = 1;
    session_abandon(&session, (struct quiet_fork){0});
    CHECK(session.library.address_space == NULL);
}
