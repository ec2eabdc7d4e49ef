/*
 * Labels: what a program says each of its threads is doing. A thread notes each change of its label
 * with the time; the helper looks up which one held when a sample was taken.
 *
 * All of it is in memory of fixed size that both sides see, which is mapped at the first label.
 * Each thread that ever set one has an entry with a queue of changes: the thread alone appends, the
 * helper alone takes out. A queue that is full takes no change; the helper then goes on with the
 * label of that moment, and it is counted. Texts are kept for good, each once (but for two threads
 * that bring the same one at the same time).
 *
 * An entry has an owner: a thread's number and, as the kernel gives numbers anew, a life, which no
 * other owner has had. Of a thread that ends the helper gives the entry back, if it knew of it; if
 * not, the next thread of that number does, at its birth (labels_forget) or at its first label.
 *
 * Thread safety: labels_prepare, label_find, label_entry_take, labels_forget from any thread, at
 * any time, also in a signal handler that interrupts another of these calls; label_set for the
 * entry's own thread alone (a handler that interrupts it may cost or add one change); labels_forked
 * in the one thread of a forked child; label_at and what follows it in the helper. No locks, no
 * allocation, no system calls but the one of labels_prepare.
 */
#ifndef SELFSAMPLE_CORE_LABELS_H
#define SELFSAMPLE_CORE_LABELS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define LABEL_BYTES    64u   /* of one, the NUL included; what is longer is cut */
#define LABELS_MAX     1024u /* different ones */
#define LABEL_SLOTS    2048u /* for these */
#define LABEL_ENTRIES  1024u /* threads that have set one, at a time */
#define LABEL_CHANGES  128u  /* that wait for the helper, of one thread; a power of two */
#define LABEL_NONE     0u
#define LABEL_OTHER    (LABEL_SLOTS + 1u) /* stands for all beyond LABELS_MAX */
#define LABEL_IDS      (LABEL_SLOTS + 2u) /* all of them are below this */
#define LABEL_NO_ENTRY UINT32_MAX

enum label_state { LABEL_FREE, LABEL_WRITTEN, LABEL_READY };

struct label_text {
    uint32_t state; /* enum label_state, atomic */
    char text[LABEL_BYTES];
};

struct label_change {
    uint64_t time_ns;
    uint32_t label;
};

struct label_entry {
    uint32_t current;  /* the thread's label; atomic */
    uint32_t base;     /* the label before the first change that waits */
    uint32_t appended; /* changes ever; atomic, the thread's */
    uint32_t taken;    /* likewise; atomic, the helper's, or without one the thread's */
    uint32_t missed;   /* the queue was full; atomic */
    struct label_change changes[LABEL_CHANGES];
};

struct label_tables {
    uint64_t owners[LABEL_ENTRIES]; /* of the entries, see label_owner_tid; 0: free; atomic */
    struct label_text texts[LABEL_SLOTS];
    struct label_entry entries[LABEL_ENTRIES];
};

struct labels {
    uint32_t count;   /* texts, atomic */
    uint32_t refused; /* calls with a label too many, atomic */
    uint32_t missed;  /* changes that found a full queue, atomic */
    uint32_t used;    /* entries that may not be free: [0, used); atomic */
    uint32_t taken;   /* entries ever taken; atomic */
    void *tables;     /* a struct label_tables, mapped late; NULL: no label yet; atomic */
};

/* The thread that OWNER is; 0: nobody; negative: an entry that is just being taken. */
static inline pid_t label_owner_tid(uint64_t owner)
{
    return (pid_t)(uint32_t)owner;
}

/* Makes the tables, by a system call, unless they are there. 0 or -ENOMEM. What follows does
 * without where they are not: there is no label, and no entry. */
int labels_prepare(struct labels *labels);

/* The number of a label, made if it is new; LABEL_NONE for NULL and ""; LABEL_OTHER where there are
 * too many. */
uint32_t label_find(struct labels *labels, const char *text);

/* The text of a label as it was given; "" for LABEL_NONE. LABEL is below LABEL_IDS. */
const char *label_text(const struct labels *labels, uint32_t label);

/* An entry for the calling thread, TID, which has none: what is TID's is a dead thread's, and given
 * back. NULL where all are in use. */
struct label_entry *label_entry_take(struct labels *labels, pid_t tid);

/* Is ENTRY, which TID has taken, still that thread's? */
bool label_entry_is_of(const struct labels *labels, const struct label_entry *entry, pid_t tid);

/* At the birth of thread TID: gives back what a dead one of that number has left. */
void labels_forget(struct labels *labels, pid_t tid);

/* Who has entry INDEX, which is below LABEL_ENTRIES. */
uint64_t label_owner(const struct labels *labels, uint32_t index);

/* Gives entry INDEX back, if OWNER still has it. */
void label_entry_free(struct labels *labels, uint32_t index, uint64_t owner);

/*
 * Notes a change at NOW_NS (CLOCK_MONOTONIC). HAS_READER: there is a helper to take it. Returns how
 * many changes wait.
 */
uint32_t label_set(struct labels *labels, struct label_entry *entry, uint32_t label,
                   uint64_t now_ns, bool has_reader);

/* In a forked child, whose only thread is TID, with the entry MINE (NULL: none): its label stays,
 * all else goes. */
void labels_forked(struct labels *labels, struct label_entry *mine, pid_t tid);

/* The entry of TID, or LABEL_NO_ENTRY. */
uint32_t label_entry_of(const struct labels *labels, pid_t tid);

/* The label that ENTRY had at TIME_NS, which must not be before that of an earlier call. */
uint32_t label_at(struct labels *labels, uint32_t entry, uint64_t time_ns);

/* Takes the changes up to TIME_NS out of all queues: no sample from before that will come. */
void labels_advance(struct labels *labels, uint64_t time_ns);

#endif
