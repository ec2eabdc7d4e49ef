/* The lock-free mailbox between new threads and the helper. Never waits, never allocates. */
#include "mailbox.h"

/* Slots looked at before the search gives up: a full mailbox must not cost a new thread much. */
#define TRIES 64u

static void used_raise(struct mailbox *mailbox, uint32_t used)
{
    uint32_t before = __atomic_load_n(&mailbox->used, __ATOMIC_RELAXED);
    while (before < used && !__atomic_compare_exchange_n(&mailbox->used, &before, used, false,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED))
        continue;
}

struct mailbox_slot *mailbox_reserve(struct mailbox *mailbox)
{
    uint32_t start = __atomic_fetch_add(&mailbox->next, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t index = (start + i) % MAILBOX_SLOTS;
        struct mailbox_slot *slot = &mailbox->slots[index];
        uint32_t expected = MAILBOX_FREE;
        if (__atomic_compare_exchange_n(&slot->state, &expected, MAILBOX_RESERVED, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
            used_raise(mailbox, index + 1);
            return slot;
        }
    }
    return NULL;
}

struct mailbox_slot *mailbox_reserve_birth(struct mailbox *mailbox)
{
    struct mailbox_slot *slot = mailbox_reserve(mailbox);
    if (slot == NULL)
        __atomic_add_fetch(&mailbox->unannounced, 1, __ATOMIC_RELAXED);
    return slot;
}

void mailbox_cancel(struct mailbox_slot *slot)
{
    __atomic_store_n(&slot->state, MAILBOX_FREE, __ATOMIC_RELEASE);
}

uint32_t mailbox_post(struct mailbox *mailbox, struct mailbox_slot *slot)
{
    __atomic_store_n(&slot->state, MAILBOX_BORN, __ATOMIC_RELEASE);
    return __atomic_add_fetch(&mailbox->unread, 1, __ATOMIC_SEQ_CST);
}

uint32_t mailbox_used(const struct mailbox *mailbox)
{
    return __atomic_load_n(&mailbox->used, __ATOMIC_RELAXED);
}

const struct birth *mailbox_peek(const struct mailbox *mailbox, uint32_t index)
{
    const struct mailbox_slot *slot = &mailbox->slots[index];
    return __atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) == MAILBOX_BORN ? &slot->birth : NULL;
}

bool mailbox_has_birth_of(const struct mailbox *mailbox, pid_t tid)
{
    uint32_t used = mailbox_used(mailbox);
    for (uint32_t i = 0; i < used; i++) {
        const struct birth *birth = mailbox_peek(mailbox, i);
        if (birth != NULL && birth->tid == tid && !birth->ended)
            return true;
    }
    return false;
}

bool mailbox_take(struct mailbox *mailbox, uint32_t index, struct birth *birth)
{
    struct mailbox_slot *slot = &mailbox->slots[index];
    if (__atomic_load_n(&slot->state, __ATOMIC_ACQUIRE) != MAILBOX_BORN)
        return false;
    *birth = slot->birth;
    __atomic_sub_fetch(&mailbox->unread, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&slot->state, MAILBOX_FREE, __ATOMIC_RELEASE);
    return true;
}

void mailbox_clear(struct mailbox *mailbox)
{
    for (uint32_t i = 0; i < mailbox->used; i++)
        if (mailbox->slots[i].state != MAILBOX_FREE)
            mailbox->slots[i].state = MAILBOX_FREE;
    mailbox->next = mailbox->used = mailbox->unread = mailbox->unannounced = 0;
}

bool mailbox_has_reserved(const struct mailbox *mailbox)
{
    uint32_t used = mailbox_used(mailbox);
    for (uint32_t i = 0; i < used; i++)
        if (__atomic_load_n(&mailbox->slots[i].state, __ATOMIC_RELAXED) == MAILBOX_RESERVED)
            return true;
    return false;
}
