/* The lock-free mailbox between new threads and the helper. Never waits, never allocates. */
#include "mailbox.h"

/* Slots looked at before the search gives up: a full mailbox must not cost a new thread much. */
#define TRIES 64u

struct mailbox_slot *mailbox_reserve(struct mailbox *mailbox)
{
    uint32_t start = __atomic_fetch_add(&mailbox->next, 1, __ATOMIC_RELAXED);
    for (uint32_t i = 0; i < TRIES; i++) {
        struct mailbox_slot *slot = &mailbox->slots[(start + i) % MAILBOX_SLOTS];
        uint32_t expected = MAILBOX_FREE;
        if (__atomic_compare_exchange_n(&slot->state, &expected, MAILBOX_RESERVED, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return slot;
    }
    return NULL;
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
    mailbox->next = mailbox->unread = 0;
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
        if (mailbox->slots[i].state != MAILBOX_FREE)
            mailbox->slots[i].state = MAILBOX_FREE;
}

bool mailbox_has_reserved(const struct mailbox *mailbox)
{
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
        if (__atomic_load_n(&mailbox->slots[i].state, __ATOMIC_RELAXED) == MAILBOX_RESERVED)
            return true;
    return false;
}
