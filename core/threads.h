/*
 * The threads that are profiled, and what becomes of their events.
 *
 * A thread arrives with the event that it opened at its birth (mailbox.h), or is found in
 * /proc/PID/task without one. One that lives on is settled: the helper opens an event of its own on
 * it, with a ring that fits the number of threads and a stack copy that fits the thread, and ends
 * the first one. The descriptors of settled events are in the helper's table, not in the app's.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_THREADS_H
#define SELFSAMPLE_CORE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

#include "arena.h"
#include "deep_stack.h"
#include "mailbox.h"
#include "ring.h"
#include "sampling.h"
#include "timers.h"

#define THREADS_MAX   16384u
#define THREADS_BLOCK 64u
#define THREADS_LEFT  256u

struct thread {
    pid_t tid; /* 0: this entry is free */
    struct event event;
    struct ring ring;
    uint32_t one_in;  /* its birth stands for so many */
    bool passed_over; /* by lot it has no event until it is settled */
    bool by_timer;    /* a timer of its own makes its samples: it is never settled */
    bool plain;       /* not settled, yet weights are differences of its count */
    bool settled;     /* the event is the helper's own, and weights are differences of its count */
    bool dead;        /* no more records will come */
    bool refused;     /* settling it failed; it is tried again at retry_ns */
    bool wants_more_stack;     /* its stacks were cut by the copy */
    uint32_t stack_bytes;      /* of each sample's copy */
    uint32_t needed_bytes;     /* the most of it that a sample of this event needed */
    uint32_t needs_noted;      /* samples that this is of */
    uint32_t shrunk;           /* how often its copy was found to be too large */
    struct deep_stack deep;    /* what is known of its outer frames */
    uint32_t text;             /* index of its frame's text, UINT32_MAX: not made yet */
    uint64_t birth_nominal_ns; /* of its first event, see sampling.h */
    uint32_t fast_rarity;      /* of its draws below a quarter of that */
    uint64_t shortest_ns;      /* that could be drawn for that */
    uint32_t label;            /* at its last sample, see labels.h */
    uint32_t label_entry;      /* LABEL_NO_ENTRY: none known */
    uint32_t labels_taken;     /* labels->taken when that was last looked for */
    uint64_t owed_ns;      /* used before it could be sampled; its next sample weighs that too */
    uint64_t end_cpu_ns;   /* its CPU clock at its end, as it told it; 0: it did not */
    uint64_t end_switches; /* and how often it was on a processor, see mailbox.h */
    uint64_t birth_cpu_ns; /* its CPU clock when its first event began to count */
    uint64_t weight_ns;    /* of all samples of that event */
    uint64_t period_ns;    /* of its event, as last set */
    bool period_is_new;    /* no sample has come since: the last one ended early */
    uint64_t lost_since_sample; /* records that were, as far as that is told */
    bool ring_was_full;   /* when it was last read: what came then was lost, and is not told yet */
    bool sampled;         /* its event has made a record */
    bool unbalanced;      /* it was paused while it had its first event: that can't be accounted */
    bool scanned;         /* it was found in /proc, not by its birth */
    bool is_old;          /* it may be as old as the process, and have used much before that */
    uint32_t scan;        /* the last scan of /proc that saw it */
    uint64_t base_cpu_ns; /* its CPU clock when its event began to count */
    uint64_t stolen_ns;   /* what the event has counted and the thread has not used */
    uint64_t switched_ns; /* what the thread has used and the event has not counted */
    uint64_t switches;    /* how often it was on a processor until then */
    uint64_t switches_asked_ns, switches_count_ns; /* when that was last looked for, and count_ns */
    uint64_t count_ns;                             /* at the last sample */
    uint32_t last_node;              /* of the profile, where its last sample went; PROFILE_NONE */
    uint32_t seen_node, kernel_node; /* of its first event, where points went that made records, and
                                        those in the kernel that made none; PROFILE_NONE */
    uint32_t missed;                 /* how many of the latter are known */
    uint32_t samples_since_draw;     /* with those that were lost */
    uint64_t retry_ns;
    uint64_t fitted_ns; /* when its settled event was opened; CLOCK_MONOTONIC */
    uint32_t growths;   /* how often that was for the sake of a larger copy */
    uint64_t seen_ns;   /* when the helper first saw it */
    char name[THREAD_NAME_BYTES];
};

/* How events of this process are to be. */
struct threads_plan {
    const struct event_traits *traits;
    struct timers *timers; /* to ask for those of threads that can't have an event; NULL: none */
    uint64_t period_ns;    /* nominal */
    uint32_t stack_bytes;  /* 0: as the ring and the thread need */
    uint64_t budget_bytes; /* of locked memory, for all rings */
    bool had_threads;      /* the process had threads before it was profiled */
    pid_t app_pid;
    bool proc_is_foreign; /* /proc shows another pid namespace: its numbers are other processes' */
};

struct threads {
    struct threads_plan plan;
    struct arena *arena;
    struct thread *blocks[THREADS_MAX / THREADS_BLOCK]; /* made as needed */
    uint32_t used; /* entries that may not be free: [0, used) */
    uint32_t live;
    uint32_t idle;            /* of these, as last counted: threads_note_idle */
    uint64_t idle_bytes;      /* and what their rings take */
    pid_t left[THREADS_LEFT]; /* the last that told of their end by themselves, see threads_has_left
                               */
    uint32_t left_count;      /* ever */
    uint64_t random;
    bool churns; /* threads come so fast that the size of a birth's ring matters more than what it
                    holds */
    uint32_t births_one_in;             /* they come so fast that one in so many has an event */
    uint64_t short_lives;               /* threads that ended without having been settled */
    uint64_t counted_short_lives;       /* when that was last judged */
    uint64_t counted_ns, counted_total; /* when these were last judged, and `total` then */
    uint64_t counted_cpu_ns;            /* and the process's clock */
    /* statistics */
    uint64_t total;       /* ever profiled */
    uint64_t uncovered;   /* ever without an event for good, or spared by their timers */
    uint64_t found;       /* by a scan alone: nobody has told of their births */
    uint64_t thinned;     /* passed over at their birth, and represented by others */
    uint64_t timed;       /* had a timer */
    uint64_t own_ns;      /* CPU time of the threads that our part of their births took */
    uint64_t switched_ns; /* what they used while they were switched to, as far as it is booked */
};

/* How many threads are not idle. */
static inline uint32_t threads_busy(const struct threads *threads)
{
    return threads->live > threads->idle ? threads->live - threads->idle : 0;
}

/* Entry INDEX, below `used`. It stays where it is. */
static inline struct thread *threads_at(const struct threads *threads, uint32_t index)
{
    return &threads->blocks[index / THREADS_BLOCK][index % THREADS_BLOCK];
}

/* What THREAD has used by its event's last sample, from where that began to count. */
static inline uint64_t thread_used_ns(const struct thread *thread)
{
    return thread->count_ns > thread->stolen_ns ? thread->count_ns - thread->stolen_ns : 0;
}

/* How its first event samples it. */
static inline struct sampling_birth thread_birth(const struct thread *thread)
{
    return (struct sampling_birth){thread->birth_nominal_ns, thread->fast_rarity,
                                   thread->shortest_ns, thread->period_ns};
}

/* What /proc calls the app; -1, which is nobody, where it is not the app's own /proc. */
static inline pid_t threads_proc_pid(const struct threads *threads)
{
    return threads->plan.proc_is_foreign ? -1 : threads->plan.app_pid;
}

/* 0 or -ENOMEM. */
int threads_init(struct threads *threads, const struct threads_plan *plan, struct arena *arena);

/* Takes over a new thread. NULL where the table is full (its event is then ended). */
struct thread *threads_admit(struct threads *threads, const struct birth *birth, uint64_t now_ns);

/* The same for a thread found in /proc, without an event yet. */
struct thread *threads_admit_scanned(struct threads *threads, pid_t tid, uint64_t now_ns);

/* The live thread TID, or NULL. */
struct thread *threads_find(struct threads *threads, pid_t tid);

/* The same, or one that is known to be dead and has not been retired yet. */
struct thread *threads_find_ending(struct threads *threads, pid_t tid);

/* Is TID one that told of its end a moment ago? /proc may have it still. */
bool threads_has_left(const struct threads *threads, pid_t tid);

/* Books a thread that is at its end, if it never had an event of its own, was ever spared by its
 * timer, or was found by a scan. */
void thread_count_uncovered(struct threads *threads, const struct thread *thread);

/* How many had no event: those booked, and those of the UNANNOUNCED, whose creators found the
 * mailbox full, that no scan can have found. */
uint64_t threads_uncovered(const struct threads *threads, uint32_t unannounced);

/* Books it and ends its event, and frees its entry. */
void threads_retire(struct threads *threads, struct thread *thread);

/*
 * Opens the helper's own event on THREAD and puts it into *SETTLED; the caller drains the old ring
 * up to now and then calls thread_replace. 0, or -errno: ESRCH: the thread is gone; EPERM, EACCES:
 * never possible; the thread keeps what it has.
 */
int thread_open_settled(struct threads *threads, const struct thread *thread, struct event *settled,
                        struct event_shape *shape);

/* Ends the old event of THREAD and goes on with SETTLED (which may lose its descriptor: the last
 * ones are kept for other work), which began to count when the thread's CPU clock stood at
 * BASE_CPU_NS (0: not known). */
void thread_replace(const struct threads *threads, struct thread *thread,
                    const struct event *settled, const struct event_shape *shape,
                    uint64_t base_cpu_ns);

/* Counts the threads that have made no sample yet, as many do that wait for work: their births'
 * rings do for them, and the others have the rest of the locked memory. To be asked at each look.
 */
void threads_note_idle(struct threads *threads);

/* Notes that a sample of THREAD needed BYTES of its copy. */
void thread_note_need(struct thread *thread, size_t bytes);

/* Does THREAD's ring take more than its share of the budget, or do its stacks need a larger copy,
 * or have they long done with much less? */
bool thread_is_misfit(const struct threads *threads, const struct thread *thread);

/* Draws a new period now and then, so that sampling is in step with nothing. */
void thread_redraw_period(struct threads *threads, struct thread *thread);

/* Keeps a settled event from making samples, at no cost to its thread; it goes on counting and
 * recording everything else. */
void thread_silence(struct thread *thread);

/* Ends that: the next sample stands for what is used from now on. */
void thread_unsilence(struct threads *threads, struct thread *thread);

/* Judges how fast threads come, by the clock and by what the process has used (APP_CPU_NS). To be
 * asked at each look. */
void threads_judge_churn(struct threads *threads, uint64_t now_ns, uint64_t app_cpu_ns);

/* The ring that a thread may map at its birth, so that all that are born before the next look find
 * locked memory left. To be asked at each look. */
size_t threads_birth_ring_bytes(const struct threads *threads);

/* How long the rings can take samples before the first is half full, ns. */
uint64_t threads_patience_ns(const struct threads *threads);

/* Samples from now on are under this name, cut to the kernel's length. */
void thread_rename(struct thread *thread, const char *name);

/* Reads a thread's name from /proc: records that would have told it may have been lost. */
void thread_refresh_name(pid_t app_pid, struct thread *thread);

/* Is there such a thread in the process? */
bool thread_exists(pid_t app_pid, pid_t tid);

/* Bytes of memory this process may lock for rings: what perf grants, and RLIMIT_MEMLOCK.
 * PRIVILEGED: it has CAP_IPC_LOCK, which lifts the limit. */
uint64_t threads_budget_bytes(bool privileged);

#endif
