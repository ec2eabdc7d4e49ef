/* Keeps unwind rules. Runs in the helper; allocates once. */
#include "rule_cache.h"

#include "arena.h"

#define ENTRIES ((1u << RULE_CACHE_LOG_BUCKETS) * RULE_CACHE_BUCKET_RULES)

_Static_assert(sizeof(struct rule_cache_entry) == 16, "four entries are one line of 64 bytes");

void rule_cache_init(struct rule_cache *cache, struct arena *arena)
{
    const uint64_t line = RULE_CACHE_BUCKET_RULES * sizeof(struct rule_cache_entry);
    uint8_t *memory = arena_alloc(arena, ENTRIES * sizeof(struct rule_cache_entry) + line);
    *cache = (struct rule_cache){.entries = NULL};
    if (memory != NULL) /* aligned, so that a bucket is one line */
        cache->entries =
            (struct rule_cache_entry *)(void *)(memory + (line - (uintptr_t)memory % line) % line);
}

void rule_cache_put(struct rule_cache *cache, uint64_t key, struct cfi_rule rule)
{
    if (cache->entries == NULL || key == 0)
        return;
    struct rule_cache_entry *bucket = rule_cache_bucket(cache, key);
    for (unsigned i = 0; i < RULE_CACHE_BUCKET_RULES; i++) {
        if (bucket[i].key == 0) {
            bucket[i] = (struct rule_cache_entry){key, rule};
            return;
        }
    }
    bucket[cache->turn++ % RULE_CACHE_BUCKET_RULES] = (struct rule_cache_entry){key, rule};
}

void rule_cache_forget(struct rule_cache *cache, uint64_t start, uint64_t end)
{
    /* A place is known by the end of its call, too: the first address behind the range. */
    uint64_t first = rule_cache_key(start, false), last = rule_cache_key(end, true);
    for (uint32_t i = 0; cache->entries != NULL && i < ENTRIES; i++)
        if (cache->entries[i].key - first <= last - first)
            cache->entries[i].key = 0;
}
