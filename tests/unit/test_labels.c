/* labels: numbers of texts, queues of changes, many threads at once. */
#include "labels.h"

#include <pthread.h>
#include <stdlib.h>

#include "check.h"

static struct labels labels;

static struct label_tables *tables(void)
{
    return labels.tables;
}

static void prepare(void)
{
    void *made = labels.tables;
    if (made != NULL)
        memset(made, 0, sizeof(struct label_tables));
    labels = (struct labels){.tables = made};
    REQUIRE(labels_prepare(&labels) == 0);
}

static struct label_entry *entry_of(pid_t tid)
{
    uint32_t index = label_entry_of(&labels, tid);
    return index != LABEL_NO_ENTRY ? &tables()->entries[index] : NULL;
}

static void give_back(pid_t tid)
{
    uint32_t index = label_entry_of(&labels, tid);
    label_entry_free(&labels, index, label_owner(&labels, index));
}

TEST(before_the_first_label_there_is_none_of_anything)
{
    static struct labels none;
    CHECK_U64(label_find(&none, NULL), LABEL_NONE);
    CHECK_U64(label_find(&none, "one"), LABEL_OTHER);
    CHECK_U64(none.refused, 0);
    CHECK(label_entry_take(&none, 42) == NULL);
    labels_forked(&none, NULL, 42);
    none.used = UINT32_MAX;
    CHECK_U64(label_entry_of(&none, 42), LABEL_NO_ENTRY);
    CHECK_U64(label_owner(&none, 7), 0);
    CHECK_STR(label_text(&none, 7), "[other labels]");
    labels_forget(&none, 42);
    labels_advance(&none, UINT64_MAX);
}

TEST(a_text_has_one_number)
{
    prepare();
    CHECK_U64(label_find(&labels, NULL), LABEL_NONE);
    CHECK_U64(label_find(&labels, ""), LABEL_NONE);
    uint32_t one = label_find(&labels, "one"), two = label_find(&labels, "two");
    CHECK(one != LABEL_NONE && two != LABEL_NONE && one != two);
    char copy[] = "one";
    CHECK_U64(label_find(&labels, copy), one);
    CHECK_STR(label_text(&labels, one), "one");
    CHECK_STR(label_text(&labels, two), "two");
    CHECK_STR(label_text(&labels, LABEL_NONE), "");
    CHECK_U64(label_find(&labels, "on"), label_find(&labels, "on"));
    CHECK(label_find(&labels, "on") != one);
}

/* A thread that ended unseen has left its entry; the next of that number comes. Other threads'
 * entries, before and behind it, stay. */
TEST(a_number_that_comes_again_has_no_old_label)
{
    prepare();
    struct label_entry *before = label_entry_take(&labels, 41);
    struct label_entry *dead = label_entry_take(&labels, 42);
    struct label_entry *behind = label_entry_take(&labels, 43);
    REQUIRE(before != NULL && dead != NULL && behind != NULL);
    label_set(&labels, dead, 5, 1000, true);
    give_back(41); /* the new one gets this place, before the dead one's */
    struct label_entry *born = label_entry_take(&labels, 42);
    REQUIRE(born != NULL);
    label_set(&labels, born, 6, 2000, true);
    CHECK_U64(label_at(&labels, label_entry_of(&labels, 42), 1500), LABEL_NONE);
    CHECK_U64(label_at(&labels, label_entry_of(&labels, 42), 2500), 6);
    give_back(42);
    CHECK_U64(label_entry_of(&labels, 42), LABEL_NO_ENTRY);
    CHECK(entry_of(43) == behind);
    label_entry_take(&labels, 42);
    label_set(&labels, label_entry_take(&labels, 42), 7, 3000, true);
    CHECK_U64(label_at(&labels, label_entry_of(&labels, 42), 3500), 7);
}

/* Without a label of its own, too. */
TEST(a_birth_forgets_what_a_dead_thread_of_its_number_has_left)
{
    prepare();
    struct label_entry *dead = label_entry_take(&labels, 42);
    struct label_entry *other = label_entry_take(&labels, 43);
    label_set(&labels, dead, 5, 1000, true);
    CHECK(label_entry_is_of(&labels, dead, 42) && !label_entry_is_of(&labels, dead, 43));
    labels_forget(&labels, 42);
    CHECK_U64(label_entry_of(&labels, 42), LABEL_NO_ENTRY);
    CHECK(!label_entry_is_of(&labels, dead, 42));
    CHECK(entry_of(43) == other);
}

/* Who looked before cannot take it from the next of the number. */
TEST(an_entry_is_given_back_for_its_owner_alone)
{
    prepare();
    label_entry_take(&labels, 42);
    uint32_t index = label_entry_of(&labels, 42);
    uint64_t former = label_owner(&labels, index);
    struct label_entry *again = label_entry_take(&labels, 42);
    CHECK(again == &tables()->entries[index]);
    label_entry_free(&labels, index, former);
    CHECK_U64(label_entry_of(&labels, 42), index);
}

/* 62 letters, then a character of two bytes: it goes as a whole. */
TEST(long_texts_are_cut_at_a_character)
{
    char text[80], wanted[80];
    prepare();
    memset(text, 'x', 62);
    strcpy(text + 62, "\xc3\xa4 and more");
    memset(wanted, 'x', 62);
    wanted[62] = 0;
    CHECK_STR(label_text(&labels, label_find(&labels, text)), wanted);
    memset(text, 'y', 63);
    text[63] = 0;
    uint32_t whole = label_find(&labels, text);
    CHECK_STR(label_text(&labels, whole), text);
    strcpy(text + 63, "z");
    CHECK_U64(label_find(&labels, text), whole);
}

TEST(beyond_the_limit_there_is_one_for_all)
{
    char text[32];
    prepare();
    for (unsigned i = 0; i < LABELS_MAX; i++) {
        snprintf(text, sizeof text, "label %u", i);
        CHECK(label_find(&labels, text) != LABEL_OTHER);
    }
    CHECK_U64(labels.refused, 0);
    CHECK_U64(label_find(&labels, "one more"), LABEL_OTHER);
    CHECK_U64(label_find(&labels, "and another"), LABEL_OTHER);
    CHECK_U64(labels.refused, 2);
    CHECK_STR(label_text(&labels, LABEL_OTHER), "[other labels]");
    snprintf(text, sizeof text, "label %u", 77);
    CHECK_STR(label_text(&labels, label_find(&labels, text)), text);
}

TEST(a_label_holds_from_its_time_on)
{
    prepare();
    struct label_entry *entry = label_entry_take(&labels, 42);
    REQUIRE(entry != NULL);
    uint32_t index = label_entry_of(&labels, 42);
    CHECK(&tables()->entries[index] == entry);
    CHECK_U64(label_entry_of(&labels, 43), LABEL_NO_ENTRY);
    CHECK_U64(label_set(&labels, entry, 5, 1000, true), 1);
    CHECK_U64(label_set(&labels, entry, 5, 1500, true), 1); /* no change */
    CHECK_U64(label_set(&labels, entry, 6, 2000, true), 2);
    CHECK_U64(label_set(&labels, entry, LABEL_NONE, 3000, true), 3);
    CHECK_U64(label_at(&labels, index, 999), LABEL_NONE);
    CHECK_U64(label_at(&labels, index, 1000), 5);
    CHECK_U64(label_at(&labels, index, 1999), 5);
    labels_advance(&labels, 2500);
    CHECK_U64(label_at(&labels, index, 2500), 6);
    CHECK_U64(label_at(&labels, index, 9000), LABEL_NONE);
}

/* What does not fit is counted, and the label of the moment holds from then on. */
TEST(a_full_queue_takes_the_last)
{
    prepare();
    struct label_entry *entry = label_entry_take(&labels, 42);
    for (uint32_t i = 0; i < LABEL_CHANGES + 10; i++)
        label_set(&labels, entry, 1 + i % 7, 1000 + i, true);
    CHECK_U64(labels.missed, 10);
    CHECK_U64(label_at(&labels, 0, 1000), 1);
    CHECK_U64(label_at(&labels, 0, 1001), 2);
    CHECK_U64(label_at(&labels, 0, 5000), 1 + (LABEL_CHANGES + 9) % 7);
    label_set(&labels, entry, 3, 6000, true);
    CHECK_U64(label_at(&labels, 0, 5999), 1 + (LABEL_CHANGES + 9) % 7);
    CHECK_U64(label_at(&labels, 0, 6000), 3);
}

TEST(without_a_reader_the_last_holds)
{
    prepare();
    struct label_entry *entry = label_entry_take(&labels, 42);
    label_set(&labels, entry, 3, 1000, true);
    for (uint32_t i = 0; i < 2 * LABEL_CHANGES; i++)
        label_set(&labels, entry, 4 + i % 2, 2000 + i, false);
    CHECK_U64(labels.missed, 0);
    CHECK_U64(label_at(&labels, 0, 0), 5);
}

/* The app can write anything there; a reader must not run for ever or beyond a table. */
TEST(nonsense_is_survived)
{
    prepare();
    struct label_entry *entry = label_entry_take(&labels, 42);
    memset(entry->changes, 0xff, sizeof entry->changes);
    entry->appended = 0x80000000u;
    label_at(&labels, 0, UINT64_MAX);
    entry->appended = entry->taken + 1;
    entry->base = 0x7fffffff;
    CHECK_U64(label_at(&labels, 0, UINT64_MAX), LABEL_NONE);
    labels.used = UINT32_MAX;
    labels_advance(&labels, UINT64_MAX);
    CHECK_U64(label_entry_of(&labels, 4711), LABEL_NO_ENTRY);
}

TEST(a_forked_child_keeps_its_own)
{
    prepare();
    struct label_entry *other = label_entry_take(&labels, 41);
    struct label_entry *mine = label_entry_take(&labels, 42);
    label_set(&labels, other, 2, 1000, true);
    label_set(&labels, mine, 3, 1000, true);
    label_set(&labels, mine, 4, 2000, true);
    labels_forked(&labels, mine, 99);
    CHECK_U64(label_entry_of(&labels, 41), LABEL_NO_ENTRY);
    CHECK_U64(label_entry_of(&labels, 42), LABEL_NO_ENTRY);
    REQUIRE(label_entry_of(&labels, 99) != LABEL_NO_ENTRY);
    CHECK_U64(label_at(&labels, label_entry_of(&labels, 99), 0), 4);
}

TEST(entries_run_out_and_come_back)
{
    prepare();
    for (pid_t tid = 1; tid <= (pid_t)LABEL_ENTRIES; tid++)
        REQUIRE(label_entry_take(&labels, tid) != NULL);
    CHECK(label_entry_take(&labels, 5000) == NULL);
    label_entry_free(&labels, 7, label_owner(&labels, 7));
    CHECK(label_entry_take(&labels, 5000) == &tables()->entries[7]);
    CHECK_U64(label_entry_of(&labels, 5000), 7);
}

enum { THREADS = 4, TEXTS = 300 };

static void *find_all(void *numbers)
{
    char text[32];
    uint32_t *found = numbers;
    for (unsigned round = 0; round < 20; round++)
        for (unsigned i = 0; i < TEXTS; i++) {
            snprintf(text, sizeof text, "text %u", i);
            found[i] = label_find(&labels, text);
        }
    return NULL;
}

TEST(threads_that_bring_the_same_texts)
{
    static uint32_t found[THREADS][TEXTS];
    pthread_t threads[THREADS];
    char text[32];
    prepare();
    for (unsigned i = 0; i < THREADS; i++)
        REQUIRE(pthread_create(&threads[i], NULL, find_all, found[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < THREADS; i++)
        for (unsigned t = 0; t < TEXTS; t++) {
            snprintf(text, sizeof text, "text %u", t);
            CHECK_STR(label_text(&labels, found[i][t]), text);
        }
    CHECK(labels.count <= LABELS_MAX);
}
