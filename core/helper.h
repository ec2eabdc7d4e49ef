/*
 * The helper: a task that shares the app's memory and nothing else.
 *
 * It is made by clone(CLONE_VM) with a thread block, a file table, signal handlers and a process id
 * of its own, so it outlives the app's threads however they end, holds none of the app's
 * descriptors, and libc does not know it: a single-threaded app stays single-threaded.
 *
 * Where a clone of that kind is refused it is a thread of the app's process, made as libc makes
 * threads but not known to libc either. It takes a file table and a directory of its own, and
 * blocks all signals; what else a process has it shares and leaves alone. It ends with the process,
 * so that it finishes only where somebody waits for it: at a normal exit.
 *
 * The code that runs in it must call nothing of libc that locks, allocates or uses thread-local
 * data.
 */
#ifndef SELFSAMPLE_CORE_HELPER_H
#define SELFSAMPLE_CORE_HELPER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define HELPER_NAME          "selfsample" /* of its task */
#define HELPER_STUCK_SECONDS 30u
#define HELPER_LAST_SECONDS  10u

enum helper_kind {
    HELPER_APART,  /* a process of its own */
    HELPER_THREAD, /* a thread of the app's process */
};

/* Does the helper keep the app's stderr? Whoever reads a pipe waits for its last writer. */
enum helper_stderr {
    HELPER_STDERR_BY_KIND, /* a terminal or a file */
    HELPER_STDERR_STAYS,   /* whatever it is */
    HELPER_STDERR_GOES,    /* it is the app's no longer, but some file of its own */
};

/* The helper's side of a session, in memory that both sides see. */
struct helper {
    enum helper_kind kind;
    uint32_t tid;      /* of the helper while it lives; the kernel clears and wakes it at its end */
    uint32_t is_apart; /* it has closed its copies of the app's descriptors; -errno: it can't have
                          any of its own, and has ended; futex */
    uint32_t wakes;    /* counts reasons to look up; futex */
    pid_t app_pid;
    enum helper_stderr its_stderr;
    bool has_stderr;           /* the app's could be kept */
    uint32_t snapshots_wanted; /* how many, so far; by SIGUSR1 to the helper */
    uint32_t looks_wanted;     /* the same of looks; by SIGUSR1 with a value */
    uint32_t pause_wanted;     /* by SIGUSR2 to the helper, or by the app: 1; 0: to sample */
    void (*run)(void *context);
    void *context;
    bool is_last_work;
    bool has_session;  /* of its own, or it can't have one */
    pid_t first_group; /* the process group that it was born into */
    /* Called, if set, before the watchdog ends the helper, in the midst of whatever it was at. */
    void (*give_up)(void *context);
    void *give_up_context;
    uint32_t beats, beats_seen; /* by the watchdog */
    uint32_t stuck_seconds, last_seconds;
    uint8_t *memory; /* thread block and stack */
    size_t memory_bytes;
    bool memory_is_wiped; /* a forked child has it as well, with zeroes in it; else it has not */
    bool memory_is_fresh; /* this is such a child, whose helper can have it */
};

/*
 * Starts a helper that calls RUN(CONTEXT) and then ends: of the kind WANTED, or a thread where the
 * kernel refuses one that is apart. The calling thread's thread block is the model of the helper's.
 * Returns 0 or -errno.
 */
int helper_start(struct helper *helper, enum helper_kind wanted, void (*run)(void *context),
                 void *context, enum helper_stderr its_stderr);

/* In the helper, which is to live on: gets it all signals, a process group of its own, limits,
 * prompt turns and a watchdog. A process that ends at once need not wait for all that. */
void helper_settle(struct helper *helper);

/*
 * In the helper, where the program has many busy threads: gets it a session of its own, once. Where
 * autogroups are on that is a scheduling group, which has its part of the processors however many
 * threads the program has. It is not had from the start, since a group of one that mostly sleeps
 * may have to wait for a second where others keep the processors busy (Linux 6.18), which a task
 * among few others has not.
 */
void helper_leave_session(struct helper *helper);

/* From the app, right after the start: waits, but not for long, until the helper holds none of the
 * app's descriptors any more. Else a program that ends at once would leave sockets, locks and pipes
 * open in it for a moment. */
void helper_wait_apart(struct helper *helper);

/* From the app: makes the helper look up. */
void helper_wake(struct helper *helper);

/* From the app: ends a helper_sleep under way, without being counted. */
void helper_nudge(struct helper *helper);

/* From the app: waits until the helper has ended, at the most TIMEOUT_NS. True if it has. */
bool helper_wait_end(struct helper *helper, uint64_t timeout_ns);

/* From the app: is the helper, if it lives, this process's? A copy of the process that a raw clone
 * made in a pid namespace of its own may have the same pid. */
bool helper_is_child(const struct helper *helper);

/* From the app, once the helper has ended: lets the kernel forget it. PID is what its tid was. */
void helper_reap(const struct helper *helper, pid_t pid);

/* From the app, once the helper has ended, where the process goes on: frees its stack. */
void helper_free(struct helper *helper);

/* In a forked child, of its copy: makes it ready for another start. A child of a paused process is
 * paused. */
void helper_forked(struct helper *copy);

/*
 * Signals that users may send to a helper that is apart. SIGUSR1: a snapshot now; with a value
 * (sigqueue): a look, which is a snapshot in memory. SIGUSR2: pauses and resumes in turns; with a
 * value it is said which.
 */
#define HELPER_VALUE_PAUSE  1
#define HELPER_VALUE_RESUME 2
#define HELPER_VALUE_LOOK   3

/* In the helper: sleeps for TIMEOUT_NS, or until it is woken since WAKES was read. */
void helper_sleep(struct helper *helper, uint32_t wakes, uint64_t timeout_ns);

/* In the helper: asks the kernel to wake it when the thread that made it ends. The kernel forgets
 * that with every change of users. */
void helper_parent_watch(const struct helper *helper);

/*
 * In the helper: it gets on. One that has not said so for HELPER_STUCK_SECONDS ends itself, and so
 * does one that is still there HELPER_LAST_SECONDS after the app's end or after helper_last_work.
 * Seconds in which it could not run (stopped, or its container frozen) do not count. Nobody watches
 * a thread: whoever waits for it gives up, and it ends with the app.
 */
void helper_beat(struct helper *helper);
void helper_last_work(struct helper *helper);

static inline uint32_t helper_wakes(const struct helper *helper)
{
    return __atomic_load_n(&helper->wakes, __ATOMIC_ACQUIRE);
}

/* In the helper: has the app's process ended? (True once all its threads have; a thread of ours
 * does not count.) */
bool helper_app_is_gone(const struct helper *helper);

/* In the helper: the CPU time of ours that the app's process clock holds. */
uint64_t helper_cpu_in_app_ns(const struct helper *helper);

#endif
