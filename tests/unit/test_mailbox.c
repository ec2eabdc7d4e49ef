/* mailbox: turns of a slot, and many threads that post while one takes. */
#include "mailbox.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "check.h"

#define POSTERS 4u
#define POSTS   3000u /* each */

static struct mailbox mailbox;

TEST(a_slot_goes_its_way)
{
    struct birth birth;
    memset(&mailbox, 0, sizeof mailbox);
    CHECK(!mailbox_has_reserved(&mailbox));
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    uint32_t index = (uint32_t)(slot - mailbox.slots);
    CHECK(mailbox_has_reserved(&mailbox));
    CHECK(!mailbox_take(&mailbox, index, &birth));
    slot->birth = (struct birth){.tid = 77, .period_ns = 1000, .name = "one"};
    CHECK_U64(mailbox_post(&mailbox, slot), 1);
    CHECK(!mailbox_has_reserved(&mailbox));
    CHECK(mailbox_has_birth_of(&mailbox, 77) && !mailbox_has_birth_of(&mailbox, 78));
    slot->birth.ended = true;
    CHECK(!mailbox_has_birth_of(&mailbox, 77));
    REQUIRE(mailbox_take(&mailbox, index, &birth));
    CHECK_I64(birth.tid, 77);
    CHECK_U64(birth.period_ns, 1000);
    CHECK_STR(birth.name, "one");
    CHECK_U64(mailbox.unread, 0);
    CHECK(!mailbox_take(&mailbox, index, &birth));
}

/* What was never used is never looked at: it costs no memory. */
TEST(slots_are_used_one_after_the_other)
{
    memset(&mailbox, 0, sizeof mailbox);
    CHECK_U64(mailbox_used(&mailbox), 0);
    struct mailbox_slot *first = mailbox_reserve(&mailbox), *second = mailbox_reserve(&mailbox);
    REQUIRE(first != NULL && second != NULL);
    CHECK_U64(mailbox_used(&mailbox), 2);
    mailbox_cancel(first);
    mailbox_cancel(second);
    mailbox_clear(&mailbox);
    CHECK_U64(mailbox_used(&mailbox), 0);
    for (unsigned i = 0; i < 2 * MAILBOX_SLOTS; i++)
        mailbox_cancel(mailbox_reserve(&mailbox));
    CHECK_U64(mailbox_used(&mailbox), MAILBOX_SLOTS);
}

TEST(a_cancelled_slot_is_free_again)
{
    struct birth birth;
    memset(&mailbox, 0, sizeof mailbox);
    for (unsigned i = 0; i < 3 * MAILBOX_SLOTS; i++) {
        struct mailbox_slot *slot = mailbox_reserve(&mailbox);
        REQUIRE(slot != NULL);
        mailbox_cancel(slot);
        CHECK(!mailbox_take(&mailbox, (uint32_t)(slot - mailbox.slots), &birth));
    }
    CHECK(!mailbox_has_reserved(&mailbox));
    CHECK_U64(mailbox.unread, 0);
}

TEST(a_full_mailbox_says_so)
{
    static bool given[MAILBOX_SLOTS];
    memset(&mailbox, 0, sizeof mailbox);
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++) {
        struct mailbox_slot *slot = mailbox_reserve(&mailbox);
        REQUIRE(slot != NULL);
        CHECK(!given[slot - mailbox.slots]);
        given[slot - mailbox.slots] = true;
    }
    CHECK(mailbox_reserve(&mailbox) == NULL); /* an end, say, which is not counted */
    CHECK_U64(mailbox.unannounced, 0);
    CHECK(mailbox_reserve_birth(&mailbox) == NULL);
    CHECK_U64(mailbox.unannounced, 1);
    mailbox_cancel(&mailbox.slots[500]);
    struct mailbox_slot *slot = NULL;
    for (uint32_t i = 0; i < MAILBOX_SLOTS && slot == NULL; i++)
        slot = mailbox_reserve(&mailbox);
    CHECK(slot == &mailbox.slots[500]);
}

/* Every post bears a number of its own, and a period and a name that must go with it. */
static void *post_many(void *first)
{
    for (uintptr_t number = (uintptr_t)first; number < (uintptr_t)first + POSTS;) {
        struct mailbox_slot *slot = mailbox_reserve(&mailbox);
        if (slot == NULL) {
            sched_yield();
            continue;
        }
        if (number % 7 == 0) { /* some never come to post */
            mailbox_cancel(slot);
            slot = NULL;
        } else {
            slot->birth = (struct birth){.tid = (pid_t)number, .period_ns = 3 * number};
            snprintf(slot->birth.name, sizeof slot->birth.name, "n%u", (unsigned)number);
            mailbox_post(&mailbox, slot);
        }
        number++;
    }
    return NULL;
}

static void take_one(const struct birth *birth, unsigned *seen)
{
    char name[THREAD_NAME_BYTES];
    snprintf(name, sizeof name, "n%u", (unsigned)birth->tid);
    CHECK_U64(birth->period_ns, 3 * (uint64_t)birth->tid);
    CHECK_STR(birth->name, name);
    seen[birth->tid]++;
}

TEST(many_post_and_one_takes)
{
    static unsigned seen[POSTERS * POSTS];
    pthread_t threads[POSTERS];
    unsigned taken = 0, expected = 0;
    struct birth birth;
    memset(&mailbox, 0, sizeof mailbox);
    for (unsigned number = 0; number < POSTERS * POSTS; number++)
        expected += number % 7 != 0;
    for (uintptr_t i = 0; i < POSTERS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, post_many, (void *)(i * POSTS)) == 0);
    while (taken < expected) {
        for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
            if (mailbox_take(&mailbox, i, &birth)) {
                take_one(&birth, seen);
                taken++;
            }
        sched_yield();
    }
    for (unsigned i = 0; i < POSTERS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned number = 0; number < POSTERS * POSTS; number++)
        CHECK_U64(seen[number], number % 7 != 0);
    CHECK_U64(mailbox.unread, 0);
    CHECK(!mailbox_has_reserved(&mailbox));
}

/* In the child of a fork: whoever had reserved or posted is not there. */
TEST(a_cleared_mailbox_is_free)
{
    struct birth birth;
    memset(&mailbox, 0, sizeof mailbox);
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++) {
        struct mailbox_slot *slot = mailbox_reserve(&mailbox);
        REQUIRE(slot != NULL);
        if (i % 2 == 0)
            mailbox_post(&mailbox, slot);
    }
    CHECK(mailbox_reserve_birth(&mailbox) == NULL);
    mailbox_clear(&mailbox);
    CHECK_U64(mailbox.unread, 0);
    CHECK_U64(mailbox.unannounced, 0);
    CHECK(!mailbox_has_reserved(&mailbox));
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
        CHECK(!mailbox_take(&mailbox, i, &birth));
    for (uint32_t i = 0; i < MAILBOX_SLOTS; i++)
        CHECK(mailbox_reserve(&mailbox) != NULL);
}
