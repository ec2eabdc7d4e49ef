/* Labels of threads. Runs in the app's threads and in the helper; never waits, never allocates. */
#include "labels.h"

#include <stddef.h>

#define PROBES_MAX 256u /* of a table that is half full at the most */

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

/* FNV-1a; *LENGTH is what of TEXT is kept: whole UTF-8 characters. */
static uint32_t text_hash(const char *text, size_t *length)
{
    size_t end = 0;
    while (end < LABEL_BYTES - 1 && text[end] != '\0')
        end++;
    if (text[end] != '\0')
        while (end > 0 && ((unsigned char)text[end] & 0xc0) == 0x80)
            end--;
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < end; i++)
        hash = (hash ^ (unsigned char)text[i]) * 16777619u;
    *length = end;
    return hash;
}

static bool text_is(const struct label_text *slot, const char *text, size_t length)
{
    return slot->text[length] == '\0' && __builtin_memcmp(slot->text, text, length) == 0;
}

/* Makes SLOT, which was free, hold a new label. False: somebody else was faster, or there are too
 * many (*TOO_MANY). */
static bool slot_fill(struct labels *labels, struct label_text *slot, const char *text,
                      size_t length, bool *too_many)
{
    uint32_t expected = LABEL_FREE;
    if (__atomic_add_fetch(&labels->count, 1, __ATOMIC_RELAXED) > LABELS_MAX) {
        __atomic_sub_fetch(&labels->count, 1, __ATOMIC_RELAXED);
        *too_many = true;
        return false;
    }
    if (!__atomic_compare_exchange_n(&slot->state, &expected, LABEL_WRITTEN, false,
                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        __atomic_sub_fetch(&labels->count, 1, __ATOMIC_RELAXED);
        return false;
    }
    __builtin_memcpy(slot->text, text, length);
    slot->text[length] = '\0';
    __atomic_store_n(&slot->state, LABEL_READY, __ATOMIC_RELEASE);
    return true;
}

uint32_t label_find(struct labels *labels, const char *text)
{
    size_t length;
    if (text == NULL || text[0] == '\0')
        return LABEL_NONE;
    uint32_t hash = text_hash(text, &length);
    bool too_many = false;
    for (uint32_t i = 0; i < PROBES_MAX && !too_many; i++) {
        uint32_t index = (hash + i) % LABEL_SLOTS;
        struct label_text *slot = &labels->texts[index];
        if (load(&slot->state) == LABEL_FREE && slot_fill(labels, slot, text, length, &too_many))
            return index + 1;
        if (load(&slot->state) == LABEL_READY && text_is(slot, text, length))
            return index + 1;
    }
    __atomic_add_fetch(&labels->refused, 1, __ATOMIC_RELAXED);
    return LABEL_OTHER;
}

const char *label_text(const struct labels *labels, uint32_t label)
{
    if (label == LABEL_NONE)
        return "";
    return label < LABEL_OTHER ? labels->texts[label - 1].text : "[other labels]";
}

/* Makes a free entry that of TID. */
static bool entry_claim(struct labels *labels, struct label_entry *entry, pid_t tid)
{
    pid_t expected = 0;
    if (__atomic_load_n(&entry->tid, __ATOMIC_RELAXED) != 0 ||
        !__atomic_compare_exchange_n(&entry->tid, &expected, -1, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    entry->current = entry->base = LABEL_NONE;
    entry->appended = entry->taken = entry->missed = 0;
    __atomic_store_n(&entry->tid, tid, __ATOMIC_RELEASE);
    __atomic_add_fetch(&labels->taken, 1, __ATOMIC_RELEASE);
    return true;
}

/* What still bears TID is of a thread that has ended: the kernel gives numbers anew. */
static void former_free(struct labels *labels, pid_t tid)
{
    uint32_t used = load(&labels->used);
    for (uint32_t i = 0; i < used && i < LABEL_ENTRIES; i++) {
        pid_t former = tid;
        if (__atomic_load_n(&labels->entries[i].tid, __ATOMIC_RELAXED) == tid)
            __atomic_compare_exchange_n(&labels->entries[i].tid, &former, 0, false,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED);
    }
}

struct label_entry *label_entry_take(struct labels *labels, pid_t tid)
{
    former_free(labels, tid);
    for (uint32_t i = 0; i < LABEL_ENTRIES; i++) {
        if (!entry_claim(labels, &labels->entries[i], tid))
            continue;
        uint32_t used = load(&labels->used);
        while (used <= i && !__atomic_compare_exchange_n(&labels->used, &used, i + 1, false,
                                                         __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            ;
        return &labels->entries[i];
    }
    return NULL;
}

void label_entry_free(struct label_entry *entry)
{
    __atomic_store_n(&entry->tid, 0, __ATOMIC_RELEASE);
}

uint32_t label_set(struct labels *labels, struct label_entry *entry, uint32_t label,
                   uint64_t now_ns, bool has_reader)
{
    uint32_t appended = entry->appended;
    if (entry->current == label)
        return appended - load(&entry->taken);
    __atomic_store_n(&entry->current, label, __ATOMIC_RELAXED);
    if (!has_reader) {
        entry->base = label;
        __atomic_store_n(&entry->taken, appended, __ATOMIC_RELEASE);
        return 0;
    }
    uint32_t waiting = appended - load(&entry->taken);
    if (waiting >= LABEL_CHANGES) {
        __atomic_store_n(&entry->missed, 1, __ATOMIC_RELEASE);
        __atomic_add_fetch(&labels->missed, 1, __ATOMIC_RELAXED);
        return waiting;
    }
    entry->changes[appended % LABEL_CHANGES] = (struct label_change){now_ns, label};
    __atomic_store_n(&entry->appended, appended + 1, __ATOMIC_RELEASE);
    return waiting + 1;
}

void labels_forked(struct labels *labels, struct label_entry *mine, pid_t tid)
{
    for (uint32_t i = 0; i < labels->used; i++)
        if (&labels->entries[i] != mine)
            labels->entries[i].tid = 0;
    if (labels->refused != 0 || labels->missed != 0) /* else the page stays the parent's, too */
        labels->refused = labels->missed = 0;
    if (mine == NULL)
        return;
    mine->tid = tid;
    mine->base = mine->current;
    mine->taken = mine->appended;
    mine->missed = 0;
}

uint32_t label_entry_of(const struct labels *labels, pid_t tid)
{
    uint32_t used = load(&labels->used);
    for (uint32_t i = 0; i < used && i < LABEL_ENTRIES; i++)
        if (__atomic_load_n(&labels->entries[i].tid, __ATOMIC_ACQUIRE) == tid)
            return i;
    return LABEL_NO_ENTRY;
}

uint32_t label_at(struct labels *labels, uint32_t index, uint64_t time_ns)
{
    struct label_entry *entry = &labels->entries[index];
    uint32_t taken = entry->taken, appended = load(&entry->appended);
    if (appended - taken > LABEL_CHANGES) /* the app has written over it */
        taken = appended;
    while (taken != appended && entry->changes[taken % LABEL_CHANGES].time_ns <= time_ns)
        entry->base = entry->changes[taken++ % LABEL_CHANGES].label;
    if (taken == appended && load(&entry->missed) != 0) {
        __atomic_store_n(&entry->missed, 0, __ATOMIC_RELAXED);
        entry->base = load(&entry->current);
    }
    __atomic_store_n(&entry->taken, taken, __ATOMIC_RELEASE);
    return entry->base < LABEL_IDS ? entry->base : LABEL_NONE;
}

void labels_advance(struct labels *labels, uint64_t time_ns)
{
    uint32_t used = load(&labels->used);
    for (uint32_t i = 0; i < used && i < LABEL_ENTRIES; i++)
        if (__atomic_load_n(&labels->entries[i].tid, __ATOMIC_ACQUIRE) > 0)
            label_at(labels, i, time_ns);
}
