/* Labels of threads. Runs in the app's threads and in the helper; never waits, never allocates. */
#include "labels.h"

#include <errno.h>
#include <stddef.h>

#include "mapping.h"

#define PROBES_MAX 256u /* of a table that is half full at the most */
#define CLAIMED    ((uint64_t)UINT32_MAX)

static uint32_t load(const uint32_t *word)
{
    return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

static struct label_tables *tables_of(const struct labels *labels)
{
    return __atomic_load_n(&labels->tables, __ATOMIC_ACQUIRE);
}

/* How many entries there may be, and none where there are no tables. */
static uint32_t entries_used(const struct labels *labels)
{
    uint32_t used = load(&labels->used);
    return tables_of(labels) == NULL ? 0 : used < LABEL_ENTRIES ? used : LABEL_ENTRIES;
}

int labels_prepare(struct labels *labels)
{
    return mapping_late_table(&labels->tables, sizeof(struct label_tables)) != NULL ? 0 : -ENOMEM;
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
    struct label_tables *tables = tables_of(labels);
    if (tables == NULL)
        return LABEL_OTHER;
    uint32_t hash = text_hash(text, &length);
    bool too_many = false;
    for (uint32_t i = 0; i < PROBES_MAX && !too_many; i++) {
        uint32_t index = (hash + i) % LABEL_SLOTS;
        struct label_text *slot = &tables->texts[index];
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
    const struct label_tables *tables = tables_of(labels);
    return label < LABEL_OTHER && tables != NULL ? tables->texts[label - 1].text : "[other labels]";
}

/* Makes the free entry INDEX that of TID. */
static bool entry_claim(struct labels *labels, uint32_t index, pid_t tid)
{
    struct label_tables *tables = tables_of(labels);
    struct label_entry *entry = &tables->entries[index];
    uint64_t *owner = &tables->owners[index], expected = 0;
    if (__atomic_load_n(owner, __ATOMIC_RELAXED) != 0 ||
        !__atomic_compare_exchange_n(owner, &expected, CLAIMED, false, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return false;
    entry->current = entry->base = LABEL_NONE;
    entry->appended = entry->taken = entry->missed = 0;
    uint32_t life = __atomic_add_fetch(&labels->taken, 1, __ATOMIC_RELEASE);
    __atomic_store_n(owner, (uint64_t)life << 32 | (uint32_t)tid, __ATOMIC_RELEASE);
    __atomic_add_fetch(&labels->taken, 1, __ATOMIC_RELEASE); /* who looked just now looks again */
    return true;
}

void labels_forget(struct labels *labels, pid_t tid)
{
    uint32_t used = entries_used(labels);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t owner = label_owner(labels, i);
        if (label_owner_tid(owner) == tid)
            label_entry_free(labels, i, owner);
    }
}

struct label_entry *label_entry_take(struct labels *labels, pid_t tid)
{
    struct label_tables *tables = tables_of(labels);
    labels_forget(labels, tid);
    for (uint32_t i = 0; tables != NULL && i < LABEL_ENTRIES; i++) {
        if (!entry_claim(labels, i, tid))
            continue;
        uint32_t used = load(&labels->used);
        while (used <= i && !__atomic_compare_exchange_n(&labels->used, &used, i + 1, false,
                                                         __ATOMIC_RELEASE, __ATOMIC_ACQUIRE))
            ;
        return &tables->entries[i];
    }
    return NULL;
}

bool label_entry_is_of(const struct labels *labels, const struct label_entry *entry, pid_t tid)
{
    const struct label_tables *tables = tables_of(labels);
    return tables != NULL &&
           label_owner_tid(label_owner(labels, (uint32_t)(entry - tables->entries))) == tid;
}

uint64_t label_owner(const struct labels *labels, uint32_t index)
{
    const struct label_tables *tables = tables_of(labels);
    return tables != NULL ? __atomic_load_n(&tables->owners[index], __ATOMIC_ACQUIRE) : 0;
}

void label_entry_free(struct labels *labels, uint32_t index, uint64_t owner)
{
    __atomic_compare_exchange_n(&tables_of(labels)->owners[index], &owner, 0, false,
                                __ATOMIC_RELEASE, __ATOMIC_RELAXED);
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
    struct label_tables *tables = tables_of(labels);
    uint32_t used = entries_used(labels);
    for (uint32_t i = 0; i < used; i++) {
        uint64_t *owner = &tables->owners[i];
        if (&tables->entries[i] == mine)
            *owner = (*owner >> 32) << 32 | (uint32_t)tid;
        else if (*owner != 0)
            *owner = 0;
    }
    if (labels->refused != 0 || labels->missed != 0) /* else the page stays the parent's, too */
        labels->refused = labels->missed = 0;
    if (mine == NULL)
        return;
    mine->base = mine->current;
    mine->taken = mine->appended;
    mine->missed = 0;
}

uint32_t label_entry_of(const struct labels *labels, pid_t tid)
{
    uint32_t used = entries_used(labels);
    for (uint32_t i = 0; i < used; i++)
        if (label_owner_tid(label_owner(labels, i)) == tid)
            return i;
    return LABEL_NO_ENTRY;
}

uint32_t label_at(struct labels *labels, uint32_t index, uint64_t time_ns)
{
    struct label_entry *entry = &tables_of(labels)->entries[index];
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
    uint32_t used = entries_used(labels);
    for (uint32_t i = 0; i < used; i++)
        if (label_owner_tid(label_owner(labels, i)) > 0)
            label_at(labels, i, time_ns);
}
