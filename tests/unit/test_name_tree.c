/*
 * Profiles by names, with counts: what is owed from one profile to the next. Order and text are
 * test_folded's affair.
 */
#include "check.h"

#include <stdlib.h>

#include "name_tree.h"

#define NODES   60u
#define UNIT_NS 1000

static struct arena arena, scratch;
static struct profile profile;
static int64_t owed_ns[NODES];

static const char *frame_name(void *context, uint32_t frame)
{
    static const char *const names[] = {"main", "a", "b", "c", "[jit]"};
    (void)context;
    return names[profile_frame_at(&profile, frame)->module];
}

/* NODES nodes under random parents, of five names. */
static void plant(unsigned seed)
{
    srandom(seed);
    arena_init(&arena, 0);
    arena_init(&scratch, 0);
    profile_init(&profile, &arena);
    for (uint32_t i = 0; i < NODES; i++) {
        uint32_t parent = i < 3 ? PROFILE_NONE : (uint32_t)random() % i;
        uint32_t frame = profile_frame(&profile, (uint32_t)random() % 5, i);
        REQUIRE(profile_child(&profile, parent, frame) == i);
        owed_ns[i] = 0;
    }
}

static void done(void)
{
    arena_destroy(&arena);
    arena_destroy(&scratch);
}

/* Gives all nodes a weight below 2^SIZE, now and then none; returns the sum. */
static uint64_t weigh(unsigned size)
{
    uint64_t sum_ns = 0;
    for (uint32_t i = 0; i < NODES; i++) {
        struct profile_node *node = sequence_at(&profile.nodes, i);
        node->weight_ns = random() % 3 == 0 ? 0 : (uint64_t)random() % (1u << size);
        sum_ns += node->weight_ns;
    }
    return sum_ns;
}

static uint64_t counts_sum(const struct name_tree *tree)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile_node_count(&tree->merged); i++)
        sum += tree->counts[i];
    return sum;
}

static bool make(struct name_tree *tree)
{
    const struct named_profile named = {
        .profile = &profile, .names = {frame_name, NULL}, .unit_ns = UNIT_NS, .owed_ns = owed_ns};
    return name_tree_make(tree, &named, &scratch);
}

/* However small the parts are in which a profile comes, nothing is lost and nothing comes up twice:
 * in all, and for each stack of names. */
TEST(counts_of_parts_add_up_to_those_of_the_whole)
{
    for (unsigned seed = 1; seed < 40; seed++) {
        uint64_t weight_ns = 0, count = 0, of_node_ns[NODES] = {0}, of_node[NODES] = {0};
        plant(seed);
        for (unsigned part = 0; part < 30; part++) {
            struct name_tree tree;
            weight_ns += weigh(4 + seed % 10);
            REQUIRE(make(&tree));
            count += counts_sum(&tree);
            CHECK_U64(count, (weight_ns + UNIT_NS / 2) / UNIT_NS);
            for (uint32_t i = 0; i < profile_node_count(&tree.merged); i++) {
                of_node_ns[i] += profile_node_at(&tree.merged, i)->weight_ns;
                of_node[i] += tree.counts[i];
                int64_t off_ns = (int64_t)(of_node_ns[i] - of_node[i] * UNIT_NS);
                CHECK(off_ns > -2 * UNIT_NS && off_ns < 2 * UNIT_NS);
            }
        }
        done();
    }
}

TEST(what_is_ahead_is_taken_back)
{
    struct name_tree tree;
    plant(1);
    weigh(1);
    for (uint32_t i = 0; i < NODES; i++)
        owed_ns[i] = i == 7 ? 0 : -(UNIT_NS - 1);
    ((struct profile_node *)sequence_at(&profile.nodes, 7))->weight_ns = 100 * UNIT_NS;
    REQUIRE(make(&tree));
    CHECK_U64(counts_sum(&tree), 41); /* 100 - 59 * 0.999 */
    done();
}

TEST(out_of_memory_leaves_what_is_owed_alone)
{
    unsigned failed = 0;
    plant(2);
    weigh(12);
    for (uint32_t i = 0; i < NODES; i++)
        owed_ns[i] = 5;
    for (int nth = 1; nth < 12; nth++) {
        struct name_tree tree;
        scratch.fail_countdown = nth;
        if (make(&tree))
            break;
        failed++;
        for (uint32_t i = 0; i < NODES; i++)
            CHECK_I64(owed_ns[i], 5);
    }
    CHECK(failed >= 8);
    done();
}
