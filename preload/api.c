/*
 * The calls of include/selfsample.h. Run in the app's threads; allocate nothing, leave errno alone.
 *
 * All but labels take turns, under one lock that knows its owner: what they do has two sides, the
 * app's and the helper's, and there is one helper.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <time.h>

#include "../core/sys.h"
#include "hooks.h"
#include "init.h"

#define SELFSAMPLE_LIBRARY
#include "../include/selfsample.h"

#define EXPORT __attribute__((visibility("default")))

#define TEXT(value)  #value
#define TEXT_(value) TEXT(value)

#define LOCK_PART_NS 10000000u
#define LOCK_PARTS   3000u
/* With many changes waiting the helper is woken, lest the queue gets full. */
#define CHANGES_TO_WAKE (LABEL_CHANGES / 4)

_Static_assert(SELFSAMPLE_LABEL_BYTES == LABEL_BYTES - 1, "the header tells another length");
_Static_assert(SELFSAMPLE_LABELS_MAX == LABELS_MAX, "the header tells another number");

static uint32_t owner; /* thread id of who has the lock; 0: nobody; futex */

/* The calling thread's place among the labels. In the static thread block, which needs no
 * allocation at its first use. */
static __thread struct label_entry *label_mine __attribute__((tls_model("initial-exec")));
static __thread pid_t label_tid __attribute__((tls_model("initial-exec")));

int api_lock(void)
{
    uint32_t me = (uint32_t)sys0(SYS_gettid);
    const struct timespec part = {0, LOCK_PART_NS};
    for (unsigned parts = 0; parts < LOCK_PARTS; parts++) {
        uint32_t found = 0;
        if (__atomic_compare_exchange_n(&owner, &found, me, false, __ATOMIC_ACQUIRE,
                                        __ATOMIC_RELAXED))
            return 0;
        if (found == me)
            return -EDEADLK;
        sys4(SYS_futex, &owner, FUTEX_WAIT, found, &part);
    }
    return -ETIMEDOUT;
}

void api_unlock(void)
{
    __atomic_store_n(&owner, 0, __ATOMIC_RELEASE);
    sys3(SYS_futex, &owner, FUTEX_WAKE, 1);
}

void api_forked(void)
{
    if (owner != 0)
        owner = 0; /* whoever had it is not in this process */
    if (label_mine != NULL && !label_entry_is_of(&session.labels, label_mine, label_tid))
        label_mine = NULL;
    if (!session_is_hushed(&session)) /* else its number stays that of the copied thread */
        label_tid = (pid_t)sys0(SYS_gettid);
    labels_forked(&session.labels, label_mine, label_tid);
}

EXPORT const char *selfsample_version(void)
{
    return TEXT_(SELFSAMPLE_VERSION_MAJOR) "." TEXT_(SELFSAMPLE_VERSION_MINOR) "." TEXT_(
        SELFSAMPLE_VERSION_PATCH);
}

/* A thread that takes its turn: with errno as it was, and not to be cancelled in the midst of it,
 * which would leave the lock to nobody. Nothing in a turn is a cancellation point, so that it need
 * not be disabled, at whose end glibc 2.36 forgets to give a cancelled thread its result. There are
 * no turns once the app has entered seccomp: its filter may kill for a call of ours. */
struct turn {
    int error, cancel_type;
    int result; /* of api_lock, or -ESRCH: there is nobody to ask */
};

static struct turn turn_begin(void)
{
    struct turn turn = {.error = errno};
    pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, &turn.cancel_type);
    turn.result = session_is_hushed(&session) ? -ESRCH : api_lock();
    return turn;
}

static void turn_end(const struct turn *turn)
{
    if (turn->result == 0)
        api_unlock();
    pthread_setcanceltype(turn->cancel_type, NULL);
    errno = turn->error;
}

static int start_locked(void)
{
    if (session_is_mine(&session))
        return -EALREADY;
    if (library_state == LIBRARY_TOO_EARLY)
        return -EAGAIN;
    return library_state == LIBRARY_STAYS_OUT ? -EPERM : library_start_session();
}

static int stop_locked(void)
{
    return session_stop(&session);
}

static int pause_locked(void)
{
    return session_pause(&session, true);
}

static int resume_locked(void)
{
    return session_pause(&session, false);
}

/* In turn with the other calls. */
static int in_turn(int (*call)(void))
{
    struct turn turn = turn_begin();
    int result = turn.result == 0 ? call() : turn.result;
    turn_end(&turn);
    return result;
}

EXPORT int selfsample_start(void)
{
    return session_is_hushed(&session) ? -EBUSY : in_turn(start_locked);
}

EXPORT int selfsample_stop(void)
{
    return in_turn(stop_locked);
}

EXPORT int selfsample_pause(void)
{
    return in_turn(pause_locked);
}

EXPORT int selfsample_resume(void)
{
    return in_turn(resume_locked);
}

EXPORT int selfsample_snapshot(const char *path)
{
    if (path != NULL && path[0] == '\0')
        return -EISDIR;
    struct turn turn = turn_begin();
    int result =
        turn.result == 0 ? session_snapshot(&session, path != NULL ? path : "") : turn.result;
    turn_end(&turn);
    return result;
}

/* This thread's entry. A new one where it has none yet, or where it was taken for a thread that has
 * ended; that takes a system call, or two. NULL: there is none. */
static struct label_entry *label_entry(void)
{
    if (label_mine != NULL && label_entry_is_of(&session.labels, label_mine, label_tid))
        return label_mine;
    if (session_is_hushed(&session) || labels_prepare(&session.labels) != 0)
        return NULL;
    label_tid = (pid_t)sys0(SYS_gettid);
    label_mine = label_entry_take(&session.labels, label_tid);
    return label_mine;
}

EXPORT int selfsample_label(const char *label)
{
    struct timespec now;
    struct label_entry *entry = label_entry();
    uint32_t found = label_find(&session.labels, label);
    if (entry == NULL)
        return -EAGAIN;
    clock_gettime(CLOCK_MONOTONIC, &now);
    bool has_reader = session.app_pid != 0;
    uint64_t now_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    uint32_t waiting = label_set(&session.labels, entry, found, now_ns, has_reader);
    if (has_reader && waiting % CHANGES_TO_WAKE == CHANGES_TO_WAKE - 1 &&
        !session_is_hushed(&session))
        helper_wake(&session.helper);
    return found == LABEL_OTHER ? -ENOSPC : 0;
}

EXPORT const struct selfsample_calls selfsample_calls = {
    .count = 7,
    .version = selfsample_version,
    .start = selfsample_start,
    .stop = selfsample_stop,
    .pause = selfsample_pause,
    .resume = selfsample_resume,
    .snapshot = selfsample_snapshot,
    .label = selfsample_label,
};
