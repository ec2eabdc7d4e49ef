/*
 * Unwind rules by place in the code: a hash table of fixed size. Four entries share a line of the
 * processor's cache and make a bucket; where all four are taken, they are replaced in turn.
 *
 * Thread safety: one task at a time.
 */
#ifndef SELFSAMPLE_CORE_RULE_CACHE_H
#define SELFSAMPLE_CORE_RULE_CACHE_H

#include <stddef.h>

#include "cfi_rule.h"

struct arena;

#define RULE_CACHE_LOG_BUCKETS  12u
#define RULE_CACHE_BUCKET_RULES 4u

struct rule_cache_entry {
    uint64_t key; /* 0: free */
    struct cfi_rule rule;
};

struct rule_cache {
    struct rule_cache_entry *entries; /* 256 KiB, touched as used; NULL: nothing is kept */
    uint32_t turn;                    /* which of a full bucket is replaced next */
};

/* An empty cache in ARENA; where memory is short, one that keeps nothing. */
void rule_cache_init(struct rule_cache *cache, struct arena *arena);

/* A frame that is returned to has another rule than one that was interrupted at that address. */
static inline uint64_t rule_cache_key(uint64_t ip, bool is_return)
{
    return (ip << 1 | is_return) + 1; /* no user's address makes it 0 */
}

static inline struct rule_cache_entry *rule_cache_bucket(const struct rule_cache *cache,
                                                         uint64_t key)
{
    uint64_t hash = key * 0x9e3779b97f4a7c15u >> (64 - RULE_CACHE_LOG_BUCKETS);
    return cache->entries + hash * RULE_CACHE_BUCKET_RULES;
}

/* The rule that is kept for KEY, or NULL. */
static inline const struct cfi_rule *rule_cache_find(const struct rule_cache *cache, uint64_t key)
{
    if (cache->entries == NULL)
        return NULL;
    const struct rule_cache_entry *bucket = rule_cache_bucket(cache, key);
    for (unsigned i = 0; i < RULE_CACHE_BUCKET_RULES; i++)
        if (bucket[i].key == key)
            return &bucket[i].rule;
    return NULL;
}

/* Keeps RULE for KEY, which is not in the cache. Key 0 is not kept. */
void rule_cache_put(struct rule_cache *cache, uint64_t key, struct cfi_rule rule);

/* Forgets the rules of [START, END). */
void rule_cache_forget(struct rule_cache *cache, uint64_t start, uint64_t end);

#endif
