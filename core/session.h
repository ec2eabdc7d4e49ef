/*
 * One process being profiled: what the app's threads and the helper share, and how they are wired.
 *
 * The struct lives in the library's own data, so that a forked child, by whatever call it was made,
 * finds a valid copy and can tell by app_pid that it is not meant. What only the helper uses lives
 * in its arenas, which a fork does not copy.
 *
 * Who may call what: session_configure, session_start and session_abandon where the process has one
 * thread (constructor, child after fork), and session_start as well after a session_stop;
 * session_open_birth in a new thread for itself; session_end once, at exit; session_quiet and
 * session_resume around a fork; session_stop, session_pause and session_snapshot one at a time. All
 * of these run in the app's threads and leave errno alone. session_run is the helper.
 */
#ifndef SELFSAMPLE_CORE_SESSION_H
#define SELFSAMPLE_CORE_SESSION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "config.h"
#include "credentials.h"
#include "event.h"
#include "first_clock.h"
#include "lateness.h"
#include "helper.h"
#include "labels.h"
#include "linked.h"
#include "mailbox.h"
#include "message.h"
#include "outpath.h"
#include "quiet.h"
#include "timers.h"
#include "unwind.h"

#define SESSION_PROGRAM_BYTES 256u
#define SESSION_NOTICE_BYTES  2048u
#define SESSION_PAGE_BYTES    4096u      /* most often */
#define SESSION_DONE          UINT32_MAX /* progress of a helper that has done all it had to */

/* What finish_wanted may say. */
enum session_finish {
    SESSION_GOES_ON,
    SESSION_ENDS,  /* the process does, too */
    SESSION_STOPS, /* the process goes on: nothing of the session may stay */
};

/* A snapshot that the app asks for. One at a time: the app's callers take turns. */
enum session_ask { SESSION_ASK_NONE, SESSION_ASK_WAITS, SESSION_ASK_ANSWERED };
struct session_snapshot {
    uint32_t state;           /* enum session_ask; futex */
    int result;               /* 0 or -errno, once answered */
    char path[OUTPATH_BYTES]; /* ""; where the profile goes anyway */
};

/* Programs that look after others, and would meet our helper as one of their children. They are
 * profiled only where the options name them; what they run is profiled all the same. */
#define SESSION_TRACERS "strace:ltrace:gdb:gdbserver:lldb*:rr"

struct session {
    /* set by session_configure */
    struct config config;
    struct message_place stderr_place;   /* where lines for the user go, as long as it is there */
    char program[SESSION_PROGRAM_BYTES]; /* its base name */
    uint64_t our_address;                /* a code address of this library */
    uint64_t linker_list;                /* address of libc's, see process_watch.h */
    struct linked linked;                /* filled where /proc can't tell */
    struct unwind_library library;
    enum helper_kind helper_wanted; /* by whoever knows of reasons against one that is apart */

    /* set by session_start. Here begins what each session writes, in the order of how sure that is:
     * a forked child copies the pages that it writes to. */
    _Alignas(SESSION_PAGE_BYTES) pid_t app_pid; /* 0: no session */
    pid_t process_pid; /* whose memory this is; a child by vfork has another */
    struct event_traits traits;
    uint64_t period_ns;
    uint32_t granted_to; /* the user that the kernel grants these */
    bool is_copy;        /* a forked child's, of one whose traits hold for the child as well */
    int64_t paranoid;    /* kernel.perf_event_paranoid, where kernel samples are refused */
    bool refusal_told;   /* of kernel samples or timers; a forked child need not say it again */
    pid_t first_tid;     /* of the thread that started it */
    bool given_up;       /* its helper is stuck, and lives on in this memory */
    bool filters_tried;  /* seccomp filters that were there before us bear with our calls */
    bool filters_kill;   /* and they would */
    bool had_threads;    /* the process had other threads than the calling one already */
    uint64_t cpu_at_start_ns; /* the process's CPU clock */
    uint64_t seed;            /* of the births' lots, see sampling.h */
    uint64_t births;          /* how many have drawn one */
    struct helper helper;
    struct quiet quiet; /* between the helper and forking threads */

    /* said by the app */
    uint32_t finish_wanted;  /* enum session_finish: it waits for the file */
    uint32_t births_opening; /* threads with a descriptor that no slot tells of yet */
    uint32_t follow_asked;   /* how often it has changed credentials */
    uint64_t exec_cpu_ns;    /* the process's CPU clock when it was last about to exec; 0: never */
    pid_t exec_tid;          /* the thread that was */
    uint64_t exec_tid_ns;    /* its CPU clock */
    uint64_t exec_asked_ns;  /* when that was; CLOCK_MONOTONIC */
    struct undumping undumping;

    /* said by both */
    uint32_t hushed; /* seccomp is in force: we make no system call in the app's threads */

    /* said by the helper */
    uint32_t follow_answered;  /* of follow_asked; futex */
    uint32_t birth_ring_bytes; /* of a new thread's ring, as of the last turn; 0: none yet */
    uint32_t births_one_in;    /* so many births share one event, see sampling.h; 0: none yet */
    uint32_t born_unsettled;   /* settling is refused: births take plain periods */
    uint32_t sleeps_long;      /* a birth should wake it */
    uint32_t progress;         /* moves as long as it gets on */
    uint32_t paused;           /* what is in force, of helper.pause_wanted; futex */
    struct first_clock first_clock;
    struct lateness lateness; /* a child goes on with what its parent's helper has seen */
    uint64_t writings;        /* of files, in all sessions of this process: %n in the next */
    int finish_result; /* of the last writing: 0 or -errno, -ENODATA where there was nothing */

    /* set by session_start, and by the helper where it names a directory: a pattern with %n and %%
     * alone, see outpath_number */
    char out_path[OUTPATH_BYTES];

    /* both sides' */
    struct mailbox mailbox;

    /* what many a session does without */
    struct session_snapshot snapshot;
    char notice[SESSION_NOTICE_BYTES]; /* lines for the user's stderr, at the end; "": none */
    struct timers timers;
    struct labels labels; /* they outlast sessions */
};

/*
 * Reads the options for PROGRAM (a path) from ENVIRONMENT, telling mistakes on stderr. Returns
 * whether this program may be profiled; config.enabled tells whether it is to be from the start.
 */
bool session_configure(struct session *session, const char *program, char *const *environment);

/* Opens the event of the calling thread and starts the helper. 0 or -errno, after one line on
 * stderr. */
int session_start(struct session *session, char *const *environment);

/* In a process that is no longer the session's (a forked child): forgets it. Frees nothing. FORK is
 * what session_quiet gave. */
void session_abandon(struct session *session, struct quiet_fork fork);

/* In the constructor: waits for the helper of what this process was before an exec, see former.h.
 * Not where a filter kills for that. */
void session_await_former(struct session *session);

/* Is this the process of the session, and may it be asked things? False in children that share or
 * copied its memory, and once the session is hushed. */
bool session_is_mine(const struct session *session);

/* Before an exec by the calling thread: clocks go on in the next program, which waits for the
 * helper (former.h). */
void session_note_exec(struct session *session);

/* In the helper: is there an exec under way, or was there a moment ago? It is to be seen soon. */
bool session_exec_is_near(const struct session *session);

/* Has the app entered seccomp, so that no system call of ours may be made in its threads? */
bool session_is_hushed(const struct session *session);

/* Opens the calling thread's event and posts it in SLOT. */
void session_open_birth(struct session *session, struct mailbox_slot *slot);

/* In the timers' handler: gives timers to threads that came to no hook, if the helper asks for it.
 */
void session_open_asked(struct session *session);

/* Tells the helper that the calling thread is about to end, and what its clock says. */
void session_tell_end(struct session *session);

/* The event of the thread that starts the session, whose helper has been started. The last thing of
 * all, so that our own start is not the app's time. Returns 0, or the -errno that it was refused
 * with; the session goes on. */
int session_open_first(struct session *session);

/* Waits, but not for long, until slots tell of all descriptors of threads that are at their births.
 */
void session_wait_births(const struct session *session);

/* In a forked child: closes its copies of the descriptors of other threads of the parent, which may
 * have been at their births. */
void session_close_births(const struct session *session);

/* At a session's end: takes the births that the helper has not, and ends their events. */
void session_discard_births(struct session *session);

/* Asks for the profile and waits until it is on disk, as long as the helper gets on. */
void session_end(struct session *session);

/*
 * The same where the process goes on: afterwards there is no session, and nothing of it is left. In
 * any thread, but one at a time. 0 or -errno: of the writing; -ENODATA: there was nothing to write;
 * -ESRCH: there is no session; -EOWNERDEAD: the helper was killed; -ETIMEDOUT: it is stuck, and
 * there can be no other session.
 */
int session_stop(struct session *session);

/*
 * Pauses or resumes, and waits until that is in force. 0 or -errno: -ESRCH: there is no session;
 * -EOWNERDEAD: its helper was killed; -ETIMEDOUT: it did not answer in time and will do it later.
 */
int session_pause(struct session *session, bool paused);

/* Writes a snapshot to PATH ("": where the profile goes) and waits until it is there; one call at a
 * time. As session_pause, or the -errno of the writing; -ENODATA: there is nothing to write yet. */
int session_snapshot(struct session *session, const char *path);

/* After a change of the app's credentials: waits, but not for long, until the helper has the same.
 */
void session_follow(struct session *session);

/* Does the profile end where the app enters seccomp? Always if the helper is a thread: the app's
 * filter may be laid on it, too. And with timers, whose handler makes system calls. */
bool session_ends_at_seccomp(const struct session *session);

/*
 * Before the app enters seccomp: from now on no system call of ours is made in its threads, and by
 * session_ends_at_seccomp the session, if there is one, ends here. Returns whether it was hushed
 * already (or is not this process's); session_unhush after an attempt that failed, where it was
 * not.
 */
bool session_hush(struct session *session);
void session_unhush(struct session *session);

/* Waits, but not for long, until neither the helper nor a thread at its birth holds anything that a
 * fork should not copy; those that are born now wait for session_resume, but not for long. */
struct quiet_fork session_quiet(struct session *session);
void session_resume(struct session *session, struct quiet_fork fork);

/* The helper's life, from start to file. */
void session_run(void *session);

/* In the helper: the CPU clock of the app's process (clock_getcpuclockid(3)), without a helper that
 * is one of its threads; 0 once the process is reaped. */
uint64_t session_app_cpu_ns(const struct session *session);

#endif
