/* Profiles in parts: their sums, while the profile grows, loses weight, and parts go untold. */
#include "check.h"

#include <stdlib.h>

#include "series.h"

#define NODES 50u

static struct arena arena, scratch;
static struct profile profile;
static struct series series;
static uint64_t told_ns[NODES];

static void prepare(void)
{
    arena_init(&arena, 0);
    arena_init(&scratch, 0);
    profile_init(&profile, &arena);
    series_init(&series);
    memset(told_ns, 0, sizeof told_ns);
}

static void done(void)
{
    series_close(&series);
    arena_destroy(&arena);
    arena_destroy(&scratch);
}

static uint32_t node_new(void)
{
    uint32_t count = profile_node_count(&profile);
    uint32_t parent = count == 0 ? PROFILE_NONE : (uint32_t)random() % count;
    return profile_child(&profile, parent, profile_frame(&profile, 1, count));
}

static uint64_t node_weight(const struct profile *of, uint32_t node)
{
    return profile_node_at(of, node)->weight_ns;
}

/* Makes a part, and tells of it. Returns its weight. */
static uint64_t tell(void)
{
    struct series_part part;
    uint64_t sum_ns = 0;
    REQUIRE(series_part_make(&series, &profile, &part, &scratch));
    CHECK_U64(profile_node_count(&part.profile), profile_node_count(&profile));
    for (uint32_t i = 0; i < profile_node_count(&profile); i++) {
        CHECK_U64(profile_node_at(&part.profile, i)->parent, profile_node_at(&profile, i)->parent);
        told_ns[i] += node_weight(&part.profile, i);
        sum_ns += node_weight(&part.profile, i);
    }
    CHECK_U64(part.weight_ns, sum_ns);
    series_part_told(&series, &part);
    return sum_ns;
}

TEST(parts_have_what_is_new)
{
    prepare();
    uint32_t one = node_new(), other = node_new();
    profile_top_up(&profile, one, 100);
    CHECK_U64(tell(), 100);
    CHECK_U64(tell(), 0);
    profile_top_up(&profile, other, 30);
    profile_top_up(&profile, one, 7);
    uint32_t third = node_new();
    profile_top_up(&profile, third, 5);
    CHECK_U64(tell(), 42);
    CHECK_U64(told_ns[one], 107);
    CHECK_U64(told_ns[other], 30);
    CHECK_U64(told_ns[third], 5);
    done();
}

TEST(what_was_not_told_is_in_the_next_part)
{
    struct series_part lost;
    prepare();
    uint32_t node = node_new();
    profile_top_up(&profile, node, 100);
    REQUIRE(series_part_make(&series, &profile, &lost, &scratch));
    lost.owed_ns[node] = 5;
    profile_top_up(&profile, node, 1);
    CHECK_U64(tell(), 101);
    REQUIRE(series_part_make(&series, &profile, &lost, &scratch));
    CHECK_I64(lost.owed_ns[node], 0);
    lost.owed_ns[node] = 5;
    series_part_told(&series, &lost);
    REQUIRE(series_part_make(&series, &profile, &lost, &scratch));
    CHECK_I64(lost.owed_ns[node], 5);
    done();
}

/* The sum is right at once, and each stack's once its weight has come back. */
TEST(weight_that_is_taken_back)
{
    prepare();
    uint32_t one = node_new(), other = node_new();
    profile_top_up(&profile, one, 100);
    tell();
    profile_take_back(&profile, one, 40);
    profile_top_up(&profile, other, 50);
    CHECK_U64(tell(), 10);
    CHECK_U64(told_ns[other], 10);
    profile_top_up(&profile, one, 40);
    CHECK_U64(tell(), 40);
    CHECK_U64(told_ns[one], 100);
    CHECK_U64(told_ns[other], 50);
    done();
}

TEST(sums_of_random_histories)
{
    for (unsigned seed = 0; seed < 30; seed++) {
        srandom(seed);
        prepare();
        uint64_t sum_ns = 0, most_ns = 0;
        for (unsigned part = 0; part < 40; part++) {
            if (profile_node_count(&profile) < NODES)
                node_new();
            for (unsigned i = 0; i < 10; i++) {
                uint32_t node = (uint32_t)random() % profile_node_count(&profile);
                if (random() % 4 == 0)
                    profile_take_back(&profile, node, (uint64_t)random() % 100);
                else
                    profile_top_up(&profile, node, (uint64_t)random() % 100);
            }
            sum_ns += tell();
            if (profile.weight_ns > most_ns)
                most_ns = profile.weight_ns;
            CHECK_U64(sum_ns, most_ns);
        }
        for (uint32_t i = 0; i < profile_node_count(&profile); i++)
            profile_top_up(&profile, i, 10000);
        sum_ns += tell();
        CHECK_U64(sum_ns, profile.weight_ns);
        for (uint32_t i = 0; i < profile_node_count(&profile); i++)
            CHECK_U64(told_ns[i], node_weight(&profile, i));
        done();
    }
}

TEST(out_of_memory)
{
    struct series_part part;
    prepare();
    profile_top_up(&profile, node_new(), 10);
    scratch.fail_countdown = 1;
    CHECK(!series_part_make(&series, &profile, &part, &scratch));
    series.arena.fail_countdown = 1;
    CHECK(!series_part_make(&series, &profile, &part, &scratch));
    CHECK_U64(tell(), 10);
    done();
}
