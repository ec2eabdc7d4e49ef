/* The calling-context tree, against small trees drawn by hand and a brute-force count. */
#include "check.h"

#include <errno.h>
#include <stdlib.h>

#include "profile.h"

static struct profile profile;
static struct arena arena;

static void fresh(size_t limit_bytes)
{
    arena_init(&arena, limit_bytes);
    profile_init(&profile, &arena);
}

TEST(frames_are_interned)
{
    fresh(0);
    uint32_t first = profile_frame(&profile, 1, 0x1000);
    CHECK_U64(profile_frame(&profile, 2, 0x1000), first + 1);
    CHECK_U64(profile_frame(&profile, 1, 0x1001), first + 2);
    CHECK_U64(profile_frame(&profile, 1, 0x1000), first);
    CHECK_U64(profile_frame(&profile, UINT32_MAX, UINT64_MAX), first + 3);
    CHECK_U64(profile_frame_count(&profile), 4);
    const struct profile_frame *frame = profile_frame_at(&profile, first + 2);
    CHECK_U64(frame->module, 1);
    CHECK_U64(frame->address, 0x1001);
    CHECK_U64(frame->index, first + 2);
    arena_destroy(&arena);
}

TEST(stacks_share_their_outer_nodes)
{
    fresh(0);
    const uint32_t short_stack[] = {10, 11}, long_stack[] = {10, 11, 12}, other[] = {11, 10};
    CHECK_I64(profile_add(&profile, long_stack, 3, 100, NULL), 0);
    CHECK_I64(profile_add(&profile, short_stack, 2, 7, NULL), 0);
    CHECK_I64(profile_add(&profile, long_stack, 3, 50, NULL), 0);
    CHECK_I64(profile_add(&profile, other, 2, 1, NULL), 0);
    REQUIRE(profile_node_count(&profile) == 5);
    const struct profile_node *leaf = profile_node_at(&profile, 2);
    CHECK_U64(leaf->frame, 12);
    CHECK_U64(leaf->parent, 1);
    CHECK_U64(leaf->depth, 3);
    CHECK_U64(leaf->samples, 2);
    CHECK_U64(leaf->weight_ns, 150);
    CHECK_U64(profile_node_at(&profile, 1)->weight_ns, 7);
    CHECK_U64(profile_node_at(&profile, 0)->parent, PROFILE_NONE);
    CHECK_U64(profile_node_at(&profile, 0)->samples, 0);
    CHECK_U64(profile_node_at(&profile, 4)->parent, 3);
    CHECK_U64(profile.samples, 4);
    CHECK_U64(profile.weight_ns, 158);
    CHECK_U64(profile.depth_max, 3);
    arena_destroy(&arena);
}

TEST(recursion_is_a_chain)
{
    fresh(0);
    static uint32_t frames[30000];
    for (int i = 0; i < 30000; i++)
        frames[i] = 5;
    CHECK_I64(profile_add(&profile, frames, 30000, 1, NULL), 0);
    CHECK_I64(profile_add(&profile, frames, 30000, 1, NULL), 0);
    CHECK_U64(profile_node_count(&profile), 30000);
    CHECK_U64(profile.depth_max, 30000);
    arena_destroy(&arena);
}

/* Deep stacks, each like the last one in a part of its frames, against nodes looked up one by one.
 */
TEST(deep_stacks_go_where_their_frames_say)
{
    static uint32_t frames[3000];
    fresh(0);
    srand(7);
    for (unsigned i = 0; i < 3000; i++)
        frames[i] = (uint32_t)rand() % 3;
    for (unsigned round = 0; round < 500; round++) {
        size_t count = 200 + (size_t)rand() % 2800;
        uint32_t node, wanted = PROFILE_NONE;
        for (unsigned changes = round % 4; changes > 0; changes--)
            frames[rand() % 3000] = (uint32_t)rand() % 3;
        CHECK_I64(profile_add(&profile, frames, count, 1, &node), 0);
        for (size_t i = 0; i < count; i++)
            wanted = profile_child(&profile, wanted, frames[i]);
        CHECK_U64(node, wanted);
        CHECK_U64(profile_node_for(&profile, frames, count), wanted);
    }
    arena_destroy(&arena);
}

TEST(an_empty_stack_is_dropped_and_told)
{
    fresh(0);
    CHECK_I64(profile_add(&profile, NULL, 0, 9, NULL), -EINVAL);
    CHECK_U64(profile.dropped_samples, 1);
    CHECK_U64(profile.dropped_weight_ns, 9);
    CHECK_U64(profile.weight_ns, 9);
    arena_destroy(&arena);
}

TEST(a_missing_frame_charges_its_callers)
{
    fresh(0);
    const uint32_t frames[] = {1, 2, PROFILE_NONE, 3};
    CHECK_I64(profile_add(&profile, frames, 4, 9, NULL), -ENOMEM);
    REQUIRE(profile_node_count(&profile) == 2);
    CHECK_U64(profile_node_at(&profile, 1)->weight_ns, 9);
    CHECK_U64(profile.shortened_samples, 1);
    CHECK_U64(profile.shortened_weight_ns, 9);
    CHECK_U64(profile.dropped_samples, 0);
    CHECK_I64(profile_add(&profile, frames + 2, 2, 5, NULL), -ENOMEM);
    CHECK_U64(profile.dropped_weight_ns, 5);
    arena_destroy(&arena);
}

/* The sum over all nodes plus what was dropped is what was added, wherever memory ran out. */
static void check_sums(void)
{
    uint64_t samples = 0, weight_ns = 0;
    for (uint32_t i = 0; i < profile_node_count(&profile); i++) {
        const struct profile_node *node = profile_node_at(&profile, i);
        CHECK_U64(node->index, i);
        CHECK(node->parent == PROFILE_NONE || node->parent < i);
        CHECK_U64(profile_child(&profile, node->parent, node->frame), i);
        samples += node->samples;
        weight_ns += node->weight_ns;
    }
    CHECK_U64(samples + profile.dropped_samples, profile.samples);
    CHECK_U64(weight_ns + profile.dropped_weight_ns, profile.weight_ns);
}

TEST(any_failed_allocation_keeps_the_sums)
{
    for (int nth = 1; nth < 60; nth++) {
        fresh(0);
        arena.fail_countdown = nth;
        srand(1);
        for (int i = 0; i < 2000; i++) {
            uint32_t frames[3];
            for (int depth = 0; depth < 3; depth++)
                frames[depth] = profile_frame(&profile, 0, (uint64_t)rand() % 50);
            profile_add(&profile, frames, 3, 10, NULL);
        }
        CHECK_U64(profile.samples, 2000);
        check_sums();
        CHECK(profile.shortened_samples + profile.dropped_samples <= 4);
        arena_destroy(&arena);
    }
}

TEST(a_full_arena_keeps_the_sums)
{
    fresh(1u << 20);
    for (uint32_t i = 0; i < 100000; i++) {
        const uint32_t frames[] = {1, profile_frame(&profile, 0, i)};
        profile_add(&profile, frames, 2, 3, NULL);
    }
    CHECK_U64(profile.samples, 100000);
    CHECK(profile.shortened_samples > 50000);
    CHECK(profile_node_count(&profile) > 3000);
    check_sums();
    uint32_t known = profile_frame_at(&profile, 10)->address == 10 ? 10 : PROFILE_NONE;
    const uint32_t frames[] = {1, known};
    CHECK_I64(profile_add(&profile, frames, 2, 3, NULL), 0);
    arena_destroy(&arena);
}

TEST(counts_agree_with_a_table)
{
    static uint64_t table[64][64];
    fresh(0);
    memset(table, 0, sizeof table);
    for (int i = 0; i < 100000; i++) {
        const uint32_t frames[] = {(uint32_t)rand() % 64, (uint32_t)rand() % 64};
        uint64_t weight_ns = (uint64_t)rand() % 1000;
        table[frames[0]][frames[1]] += weight_ns;
        CHECK_I64(profile_add(&profile, frames, 2, weight_ns, NULL), 0);
    }
    for (uint32_t i = 0; i < profile_node_count(&profile); i++) {
        const struct profile_node *node = profile_node_at(&profile, i);
        if (node->parent == PROFILE_NONE)
            continue;
        uint64_t *expected = &table[profile_node_at(&profile, node->parent)->frame][node->frame];
        CHECK_U64(node->weight_ns, *expected);
        *expected = 0;
    }
    for (int i = 0; i < 64 * 64; i++)
        CHECK_U64(table[i / 64][i % 64], 0);
    arena_destroy(&arena);
}

TEST(a_million_nodes_fit_in_128_bytes_each)
{
    fresh(0);
    for (uint32_t i = 0; i < 1000000; i++) {
        const uint32_t frames[] = {i / 1000, i % 1000};
        REQUIRE(profile_add(&profile, frames, 2, 1, NULL) == 0);
    }
    CHECK_U64(profile_node_count(&profile), 1001000);
    CHECK(arena.mapped_bytes < 128u * 1000000);
    printf("# %zu bytes a node\n", arena.mapped_bytes / profile_node_count(&profile));
    check_sums();
    arena_destroy(&arena);
}

TEST(a_top_up_adds_weight_and_no_sample)
{
    fresh(0);
    const uint32_t frames[] = {profile_frame(&profile, 1, 0x10), profile_frame(&profile, 1, 0x20)};
    uint32_t node = PROFILE_NONE;
    CHECK_I64(profile_add(&profile, frames, 2, 100, &node), 0);
    REQUIRE(node != PROFILE_NONE);
    CHECK_U64(profile_node_at(&profile, node)->frame, frames[1]);
    profile_top_up(&profile, node, 30);
    CHECK_U64(profile_node_at(&profile, node)->weight_ns, 130);
    CHECK_U64(profile_node_at(&profile, node)->samples, 1);
    CHECK_U64(profile.weight_ns, 130);
    CHECK_U64(profile.samples, 1);
    profile_take_back(&profile, node, 20);
    CHECK_U64(profile_node_at(&profile, node)->weight_ns, 110);
    CHECK_U64(profile.weight_ns, 110);
    profile_take_back(&profile, node, 1000);
    CHECK_U64(profile.weight_ns, 0);
    arena_destroy(&arena);
}
