/*
 * Where a new thread tells the helper about itself, and where its creator leaves what it is to run.
 *
 * A slot goes FREE -> RESERVED (by the creator, before pthread_create) -> BORN (by the new thread,
 * once it has its event) -> FREE (by the helper, which takes the event over). Whoever's turn it is
 * owns all fields but the state. No locks: a thread that dies or is preempted in its turn blocks
 * nobody else.
 *
 * Thread safety: mailbox_reserve and mailbox_post from any thread, mailbox_take from the helper.
 */
#ifndef SELFSAMPLE_CORE_MAILBOX_H
#define SELFSAMPLE_CORE_MAILBOX_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "event.h"

#define MAILBOX_SLOTS     1024u
#define THREAD_NAME_BYTES 16u /* the kernel's TASK_COMM_LEN */

enum mailbox_state { MAILBOX_FREE, MAILBOX_RESERVED, MAILBOX_BORN };

/* What a thread says of itself. */
struct birth {
    pid_t tid;
    struct event event;   /* mapping NULL where it could not have one */
    int refusal;          /* -errno of that, or 0 */
    uint64_t nominal_ns;  /* of its event, see sampling.h; 0: the plan's */
    uint32_t fast_rarity; /* of such draws that are fast, see sampling.h; 0, 1: they are not rare */
    uint64_t shortest_ns; /* that could be drawn for it */
    uint64_t period_ns;   /* its event's own */
    uint32_t one_in;      /* such births one has an event, see sampling.h; 0, 1: each */
    bool passed_over;     /* this is not the one: it has no event by choice, and all below is 0 */
    bool plain;           /* that is near the nominal one, since it will not be settled */
    uint32_t stack_bytes; /* its event's copies */
    uint64_t before_ns;   /* the thread's CPU clock when it first came to us: others ran before */
    uint64_t own_ns;      /* what our part of its birth took */
    uint64_t cpu_ns;      /* its CPU clock when its event began to count */
    char name[THREAD_NAME_BYTES];
    uint64_t switches; /* how often an ending thread gave up its processor or lost it, once it is
                          long enough for that to matter */
    bool ended; /* not a birth: the thread is about to end, with this cpu_ns and these switches;
                   all else is void */
};

struct mailbox_slot {
    uint32_t state; /* enum mailbox_state, atomic */
    struct birth birth;
    uint64_t own_id; /* of the last thread's event; 0: it had none */
    int own_fd;      /* its descriptor in the app's table, which is closed soon after its birth */
    void *routine;   /* what the thread is to run, and with what; the creator's and the thread's */
    void *argument;
    bool blocks_signal; /* its maker thinks that it has the timers' signal blocked */
};

struct mailbox {
    uint32_t next;   /* where the search for a free slot begins; atomic, a hint */
    uint32_t used;   /* slots that were ever reserved: [0, used); the rest is not even touched */
    uint32_t unread; /* BORN slots that the helper has not taken yet; atomic */
    uint32_t unannounced; /* threads for which there was no slot; atomic */
    struct mailbox_slot slots[MAILBOX_SLOTS];
};

/* A free slot, now the caller's; NULL where none is found at once. */
struct mailbox_slot *mailbox_reserve(struct mailbox *mailbox);

/* The same for a new thread: one that finds none is counted as unannounced. */
struct mailbox_slot *mailbox_reserve_birth(struct mailbox *mailbox);

/* Gives a reserved slot back unused. */
void mailbox_cancel(struct mailbox_slot *slot);

/* Hands the slot to the helper. Returns how many now wait for it. */
uint32_t mailbox_post(struct mailbox *mailbox, struct mailbox_slot *slot);

/* How many slots may have something to take. Not fewer than had when a post was seen in `unread`.
 */
uint32_t mailbox_used(const struct mailbox *mailbox);

/* Shows a waiting birth in slot INDEX, to the helper, which leaves it there; NULL where there is
 * none. */
const struct birth *mailbox_peek(const struct mailbox *mailbox, uint32_t index);

/* Does a birth of thread TID wait? */
bool mailbox_has_birth_of(const struct mailbox *mailbox, pid_t tid);

/* Takes a waiting birth out of slot INDEX. False where there is none. */
bool mailbox_take(struct mailbox *mailbox, uint32_t index, struct birth *birth);

/* Frees all slots, in the child of a fork, where nobody else knows of them. What is free already is
 * not written: its memory stays shared with the parent, which makes a fork cheaper. */
void mailbox_clear(struct mailbox *mailbox);

/* True where some creator has a slot reserved: a thread may be about to post. */
bool mailbox_has_reserved(const struct mailbox *mailbox);

#endif
