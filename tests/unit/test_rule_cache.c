/* rule_cache: what is put in is found, until it is replaced or forgotten; nothing else is. */
#include "rule_cache.h"

#include "arena.h"
#include "check.h"

static struct arena arena;
static struct rule_cache cache;

static void empty(void)
{
    arena_destroy(&arena);
    rule_cache_init(&cache, &arena);
}

static struct cfi_rule rule_number(int number)
{
    return (struct cfi_rule){.kind = CFI_RULE_REGISTER, .offset = number};
}

static int found(uint64_t ip, bool is_return)
{
    const struct cfi_rule *rule = rule_cache_find(&cache, rule_cache_key(ip, is_return));
    return rule != NULL ? rule->offset : -1;
}

TEST(a_rule_is_found_by_its_place)
{
    empty();
    CHECK_I64(found(0x1000, true), -1);
    rule_cache_put(&cache, rule_cache_key(0x1000, true), rule_number(5));
    CHECK_I64(found(0x1000, true), 5);
    CHECK_I64(found(0x1000, false), -1);
    CHECK_I64(found(0x1001, true), -1);
    CHECK_I64(found(0, false), -1); /* free entries are nobody's */
}

/* More rules than there is room for: what is found is right, and the newest are found. */
TEST(a_full_cache_replaces)
{
    empty();
    const int count = 100000;
    for (int i = 0; i < count; i++)
        rule_cache_put(&cache, rule_cache_key(0x400000 + 16 * (uint64_t)i, true), rule_number(i));
    int kept = 0;
    for (int i = 0; i < count; i++) {
        int number = found(0x400000 + 16 * (uint64_t)i, true);
        CHECK(number == -1 || number == i);
        kept += number == i;
    }
    CHECK(kept > 16000);
    CHECK_I64(found(0x400000 + 16 * (uint64_t)(count - 1), true), count - 1);
}

TEST(a_range_is_forgotten)
{
    empty();
    for (int i = 0; i < 64; i++)
        rule_cache_put(&cache, rule_cache_key(0x1000 * (uint64_t)(1 + i), i % 2), rule_number(i));
    rule_cache_forget(&cache, 0x9000, 0x11000);
    for (int i = 0; i < 64; i++) {
        uint64_t ip = 0x1000 * (uint64_t)(1 + i);
        /* A call that ends with the range returns to the address behind it. */
        bool forgotten = ip >= 0x9000 && ip <= 0x11000;
        CHECK_I64(found(ip, i % 2), forgotten ? -1 : i);
    }
    rule_cache_put(&cache, rule_cache_key(0x9000, true), rule_number(99));
    CHECK_I64(found(0x9000, true), 99);
}

TEST(without_memory_nothing_is_kept)
{
    arena_destroy(&arena);
    arena.fail_countdown = 1;
    rule_cache_init(&cache, &arena);
    rule_cache_put(&cache, rule_cache_key(0x1000, true), rule_number(5));
    CHECK_I64(found(0x1000, true), -1);
    rule_cache_forget(&cache, 0, UINT64_MAX);
    arena.fail_countdown = 0;
}
