/* The weights are right when, over many draws, they sum to the CPU time and favour no part of a
 * life. */
#include "check.h"

#include "sampling.h"

#define MS_NS   1000000u
#define NOMINAL 1001001u /* 999 Hz */
#define DRAWS   100000u
#define SEED    0x1234567890abcdefu

struct life {
    double total;      /* mean of the weights' sum, in nominal periods */
    double first_part; /* share of it before SPLIT of the life */
    double samples;    /* mean number of records, counted or not */
};

/* Lives of LIFE_NS, split at SPLIT_NS, each sampled as the kernel would: at Q, 2Q, ..., a time up
 * to LATE_NS behind that. */
static struct life live_drawn(uint64_t nominal, uint32_t fast_rarity, uint64_t life_ns,
                              uint64_t split_ns, uint64_t late_ns)
{
    double total = 0, early = 0, samples = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct sampling_birth birth =
            sampling_birth_draw(nominal, fast_rarity, late_ns / 2, sampling_mix(i));
        uint64_t period = birth.period_ns;
        uint64_t late = sampling_mix(~i) % (late_ns + 1);
        for (uint64_t t = period + late; t <= life_ns; t += period) {
            double weight =
                (double)sampling_birth_weight_ns(&birth, t, t == period + late, late_ns / 2);
            total += weight;
            early += t < split_ns ? weight : 0;
            samples++;
        }
    }
    return (struct life){total / DRAWS / (double)nominal, early / total, samples / DRAWS};
}

static struct life live_late(uint64_t nominal, uint64_t life_ns, uint64_t split_ns,
                             uint64_t late_ns)
{
    return live_drawn(nominal, 1, life_ns, split_ns, late_ns);
}

static struct life live(uint64_t nominal, uint64_t life_ns, uint64_t split_ns)
{
    return live_late(nominal, life_ns, split_ns, 0);
}

static bool near(double value, double expected, double tolerance)
{
    return value > expected - tolerance && value < expected + tolerance;
}

TEST(a_tenth_of_a_period_counts_as_a_tenth)
{
    struct life life = live(NOMINAL, NOMINAL / 10, NOMINAL / 20);
    CHECK(near(life.total, 0.1, 0.003));
}

/* Those that end before it comes make no sample: others speak for them. */
TEST(late_interrupts_take_nothing_away)
{
    struct life life = live_late(125000, 100000, 75000, 20000);
    CHECK(near(life.total, 0.8, 0.02));
    CHECK(near(life.first_part, 0.75, 0.01));
    CHECK(near(live_late(NOMINAL, 100000, 75000, 20000).total, 0.1, 0.005));
}

TEST(short_threads_are_seen_at_low_rates_too)
{
    struct life life = live(10101010, 100000, 50000);
    CHECK(near(life.total, 0.0099, 0.0012));
}

TEST(one_and_a_half_periods_have_their_sum_and_shares)
{
    struct life life = live(NOMINAL, NOMINAL * 145 / 100, NOMINAL * 145 / 100 * 3 / 4);
    CHECK(near(life.total, 1.45, 0.02));
    CHECK(near(life.first_part, 0.75, 0.01));
}

TEST(several_periods_have_their_sum_and_shares)
{
    struct life life = live(NOMINAL, NOMINAL * 7, NOMINAL * 7 * 3 / 10);
    CHECK(near(life.total, 7, 0.14));
    CHECK(near(life.first_part, 0.3, 0.01));
}

TEST(long_lives_have_their_sum)
{
    struct life life = live(NOMINAL, NOMINAL * 16ull, NOMINAL * 8ull);
    CHECK(near(life.total, 16, 0.4));
    CHECK(near(life.first_part, 0.5, 0.01));
}

TEST(the_fastest_rate_is_unbiased_too)
{
    struct life life = live(100000, 250000, 100000);
    CHECK(near(life.total, 2.5, 0.05));
    CHECK(near(life.first_part, 0.4, 0.015));
}

/* As in a virtual machine, with shortest draws that are earlier than their interrupts. */
TEST(very_late_interrupts_take_nothing_away)
{
    struct life life = live_late(125000, 100000, 75000, 50000);
    CHECK(near(life.total, 0.8, 0.02));
    CHECK(near(life.first_part, 0.75, 0.02));
    life = live_late(NOMINAL, NOMINAL * 3 / 2, NOMINAL * 3 / 4, 90000);
    CHECK(near(life.total, 1.5, 0.02));
    CHECK(near(life.first_part, 0.5, 0.01));
    CHECK(sampling_birth_is_first(10000, 56000, 46000));
    CHECK(!sampling_birth_is_first(10000, 106000, 46000));
}

struct shared_life {
    double user, kernel; /* mean sums of weights, in nominal periods */
};

/* Lives that are the kernel's from FROM_NS to TO_NS, where interrupts, which are LATE_NS late,
 * leave no record. Points that pass meanwhile make no interrupt. */
static struct shared_life live_in_kernel(uint32_t fast_rarity, uint64_t life_ns, uint64_t from_ns,
                                         uint64_t to_ns, uint64_t late_ns)
{
    const uint64_t nominal = NOMINAL;
    double user = 0, kernel = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        struct sampling_birth birth =
            sampling_birth_draw(nominal, fast_rarity, late_ns, sampling_mix(i));
        uint64_t period = birth.period_ns, last = 0, t;
        for (uint64_t point = period;; point = (t / period + 1) * period) {
            t = point + late_ns + sampling_mix(point ^ i) % (period / 16);
            if (t > life_ns)
                break;
            if (t >= from_ns && t < to_ns)
                continue;
            uint64_t own = sampling_birth_point_ns(period, last, late_ns);
            bool first = last == 0 && sampling_birth_is_first(period, t, late_ns);
            if (t > own)
                kernel += (double)sampling_birth_missed_ns(&birth, last, t - own, late_ns);
            user += (double)sampling_birth_weight_ns(&birth, t, first, late_ns);
            last = t;
        }
        uint64_t until = last == 0 ? life_ns - late_ns : life_ns;
        kernel += (double)sampling_birth_missed_ns(&birth, last, until, late_ns);
    }
    return (struct shared_life){user / DRAWS / (double)nominal, kernel / DRAWS / (double)nominal};
}

/* Of the kernel in the midst, at the start, at the end, and all of it, of lives of all lengths. */
TEST(what_makes_no_record_has_its_sum_and_share)
{
    static const struct {
        double life, from, to, tolerance;
    } cases[] = {{0.4, 0.1, 0.3, 0.01}, {1.45, 0.2, 1.2, 0.03}, {4, 0.5, 3.5, 0.08},
                 {4, 0, 1, 0.08},       {4, 1, 4, 0.08},        {9, 2, 4, 0.2},
                 {1.45, 0, 1.45, 0.03}, {4, 0, 4, 0.08},        {4, 4, 4, 0.08}};
    for (unsigned i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        double life = cases[i / 4].life, from = cases[i / 4].from, to = cases[i / 4].to;
        uint32_t fast_rarity = i % 4 < 2 ? 1 : 4;
        uint64_t late_ns = i % 2 == 0 ? 0 : 46000;
        struct shared_life shared =
            live_in_kernel(fast_rarity, (uint64_t)(NOMINAL * life), (uint64_t)(NOMINAL * from),
                           (uint64_t)(NOMINAL * to), late_ns);
        double tolerance = cases[i / 4].tolerance + (late_ns == 0 ? 0 : 0.05);
        CHECK(near(shared.kernel, to - from, tolerance));
        CHECK(near(shared.user, life - (to - from), tolerance));
    }
}

/* From where e(t) has its limit each is a period of the event's; a fast draw's first point is all
 * of it that counts before. */
TEST(late_points_without_a_record_are_periods)
{
    const uint64_t late = SAMPLING_BIRTH_PERIODS * NOMINAL, fast = NOMINAL / 8;
    const struct sampling_birth plain = {NOMINAL, 1, 0, NOMINAL}, quick = {NOMINAL, 1, 0, fast};
    CHECK_U64(sampling_birth_missed_ns(&plain, late, late + 5 * NOMINAL, 0), 5 * NOMINAL);
    CHECK_U64(sampling_birth_missed_ns(&plain, late, late + NOMINAL - 1, 0), 0);
    CHECK_U64(sampling_birth_missed_ns(&quick, NOMINAL, late, 0), 0);
    CHECK_U64(sampling_birth_missed_ns(&quick, 0, late + 1, 0), NOMINAL);
    CHECK_U64(sampling_birth_missed_ns(&quick, 0, late + 9 * fast, 0), NOMINAL + 9 * fast);
    CHECK_U64(sampling_birth_missed_ns(&quick, late - fast / 2, late + 8 * fast, 0), 8 * fast);
}

TEST(births_are_sampled_at_a_bounded_rate)
{
    for (uint64_t i = 0; i < 100000; i++) {
        uint64_t period = sampling_birth_draw(NOMINAL, 1, 0, sampling_mix(i)).period_ns;
        CHECK(period >= 31250 && period <= NOMINAL);
    }
    CHECK(live(NOMINAL, NOMINAL, NOMINAL).samples < 6);
    CHECK_U64(sampling_birth_draw(100000, 1, 0, 0).period_ns, 10000);
    CHECK_U64(sampling_birth_draw(NOMINAL, 1, 46000, 0).period_ns, 46000);
    CHECK_U64(sampling_birth_draw(100000, 1, 146000, 0).period_ns, 100000);
}

/* The same over births of which one in ONE_IN is sampled. */
static struct life live_thinned(uint64_t nominal, uint32_t one_in, uint64_t life_ns,
                                uint64_t split_ns)
{
    double total = 0, early = 0, samples = 0;
    uint64_t own = sampling_birth_nominal_ns(nominal, one_in);
    for (uint64_t i = 0; i < 4 * DRAWS; i++) {
        if (!sampling_birth_is_chosen(SEED, i, one_in))
            continue;
        struct sampling_birth birth =
            sampling_birth_draw(own, 1, 0, sampling_birth_random(SEED, i, one_in));
        uint64_t period = birth.period_ns;
        for (uint64_t t = period; t <= life_ns; t += period) {
            double weight = one_in * (double)sampling_birth_weight_ns(&birth, t, t == period, 0);
            total += weight;
            early += t < split_ns ? weight : 0;
            samples++;
        }
    }
    return (struct life){total / (4 * DRAWS) / (double)nominal, early / total,
                         samples / (4 * DRAWS)};
}

TEST(thinned_births_have_their_sum_and_shares)
{
    struct life life = live_thinned(NOMINAL, 8, 100000, 50000);
    CHECK(near(life.total, 0.1, 0.003));
    CHECK(near(life.first_part, 0.5, 0.02));
    CHECK(life.samples > 0.09 &&
          life.samples < 0.3); /* no fewer than unthinned ones, and not many more */
    life = live_thinned(NOMINAL, 8, NOMINAL * 5 / 4, NOMINAL / 4);
    CHECK(near(life.total, 1.25, 0.04));
    CHECK(near(life.first_part, 0.2, 0.01));
    life = live_thinned(100000, 16, 100000, 70000);
    CHECK(near(life.total, 1, 0.04));
    CHECK(near(life.first_part, 0.7, 0.02));
}

TEST(one_in_none_is_every_one)
{
    for (uint64_t i = 0; i < 1000; i++)
        CHECK(sampling_birth_is_chosen(SEED, i, 0) && sampling_birth_is_chosen(SEED, i, 1));
    CHECK_U64(sampling_birth_nominal_ns(NOMINAL, 0), NOMINAL);
    CHECK_U64(sampling_birth_nominal_ns(NOMINAL, 1), NOMINAL);
}

/* By how much more often than the nominal period says LIFE_NS is interrupted after a later birth.
 */
static double later_interrupts(uint64_t nominal, uint32_t fast_rarity, uint64_t life_ns)
{
    uint64_t own = sampling_later_birth_nominal_ns(nominal), count = 0;
    for (uint64_t i = 0; i < DRAWS; i++)
        count +=
            life_ns /
            sampling_birth_draw(own, fast_rarity, 0, sampling_birth_random(SEED, i, 1)).period_ns;
    return (double)count / DRAWS * (double)nominal / (double)life_ns;
}

TEST(later_births_are_not_sampled_much_faster_than_asked)
{
    CHECK_U64(sampling_later_birth_nominal_ns(10 * NOMINAL), 10 * NOMINAL);
    CHECK_U64(sampling_later_birth_nominal_ns(NOMINAL), 2000000);
    CHECK_U64(sampling_later_birth_nominal_ns(100000), 400000);
    CHECK(later_interrupts(NOMINAL, 1, 5 * NOMINAL) < 2.7);
    CHECK(later_interrupts(100000, 1, 5 * NOMINAL) < 1.2);
    CHECK(later_interrupts(NOMINAL, 4, 5 * NOMINAL) < 1.6);
    CHECK_U64(sampling_later_birth_fast_rarity(NOMINAL, 0), 1);
    CHECK_U64(sampling_later_birth_fast_rarity(NOMINAL, 31), 1);
    CHECK_U64(sampling_later_birth_fast_rarity(NOMINAL, 32), 4);
    CHECK_U64(sampling_later_birth_fast_rarity(2 * NOMINAL, 32), 1);
}

TEST(later_births_have_their_sum_and_shares)
{
    uint64_t own = sampling_later_birth_nominal_ns(NOMINAL);
    struct life life = live(own, NOMINAL * 5 / 2, NOMINAL / 2);
    CHECK(near(life.total * (double)own / (double)NOMINAL, 2.5, 0.05));
    CHECK(near(life.first_part, 0.2, 0.01));
}

/* Lives of less than the fast draws, of these and others, of several periods; late ones. */
TEST(rare_fast_draws_have_their_sum_and_shares)
{
    static const struct {
        double life, split, tolerance;
    } cases[] = {{0.04, 0.02, 0.004}, {0.2, 0.1, 0.012}, {0.6, 0.3, 0.012},
                 {1.45, 0.4, 0.03},   {7, 2.1, 0.14},    {16, 8, 0.4}};
    for (unsigned i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        double life = cases[i / 2].life, split = cases[i / 2].split;
        uint64_t late_ns = i % 2 == 0 ? 0 : 20000;
        struct life seen = live_drawn(2 * MS_NS, 4, (uint64_t)(2 * MS_NS * life),
                                      (uint64_t)(2 * MS_NS * split), late_ns);
        CHECK(near(seen.total, life, cases[i / 2].tolerance));
        if (late_ns == 0 || split > 0.04) /* else most of the first part is too late */
            CHECK(near(seen.first_part, split / life, 0.025));
    }
    /* Where the shortest draw is not fast. */
    struct life rare = live_drawn(80000, 4, 60000, 45000, 50000);
    struct life even = live_drawn(80000, 1, 60000, 45000, 50000);
    CHECK(near(rare.total, even.total, 0.01));
    CHECK(near(rare.first_part, even.first_part, 0.01));
}

TEST(of_each_n_births_one_is_chosen_and_none_is_favoured)
{
    unsigned chosen[8] = {0};
    for (uint64_t block = 0; block < DRAWS; block++) {
        unsigned in_block = 0;
        for (uint64_t i = 0; i < 8; i++)
            if (sampling_birth_is_chosen(SEED, block * 8 + i, 8)) {
                in_block++;
                chosen[i]++;
            }
        REQUIRE(in_block == 1);
    }
    for (unsigned i = 0; i < 8; i++)
        CHECK(near(chosen[i], DRAWS / 8.0, DRAWS / 8.0 * 0.05)); /* 5 sigma */
}

/* Every round has one in each part; every place in a round has all parts in turn, evenly within. */
TEST(the_numbers_of_births_are_spread)
{
    double sums[SAMPLING_STRATA] = {0};
    for (uint64_t round = 0; round < DRAWS / 10; round++) {
        uint32_t parts = 0;
        for (uint64_t i = 0; i < SAMPLING_STRATA; i++) {
            uint64_t random = sampling_birth_random(SEED, round * SAMPLING_STRATA + i, 1);
            parts |= 1u << (random >> 60);
            sums[i] += (double)random / 18446744073709551616.0;
        }
        REQUIRE(parts == 0xffff);
    }
    for (unsigned i = 0; i < SAMPLING_STRATA; i++)
        CHECK(near(sums[i] / (DRAWS / 10), 0.5, 0.015)); /* 5 sigma */
}

/* 100 threads of a third of a period: independent draws would vary by 14 %. */
TEST(sums_of_few_short_threads_vary_little)
{
    for (uint64_t seed = 0; seed < 1000; seed++) {
        double total = 0;
        for (uint64_t i = 0; i < 100; i++) {
            uint64_t random = sampling_birth_random(sampling_mix(seed), i, 1);
            struct sampling_birth birth = sampling_birth_draw(NOMINAL, 1, 0, random);
            if (birth.period_ns <= NOMINAL / 3)
                total += (double)sampling_birth_weight_ns(&birth, birth.period_ns, true, 0);
        }
        CHECK(near(total / NOMINAL, 33.3, 7));
    }
}

TEST(settled_periods_spread_evenly_around_the_nominal)
{
    uint64_t low = UINT64_MAX, high = 0;
    double sum = 0;
    for (uint64_t i = 0; i < DRAWS; i++) {
        uint64_t period = sampling_settled_period_ns(NOMINAL, sampling_mix(i));
        low = period < low ? period : low;
        high = period > high ? period : high;
        sum += (double)period;
    }
    CHECK(near((double)low / NOMINAL, 0.75, 0.001));
    CHECK(near((double)high / NOMINAL, 1.25, 0.001));
    CHECK(near(sum / DRAWS / NOMINAL, 1, 0.002));
}

/* Turns of 2 ms of which threads that are thinned take half, and weigh so many times what they
 * should. */
static uint64_t given_after(unsigned turns, double too_much, uint64_t *clock_ns)
{
    struct sampling_share share = {0};
    uint64_t given_ns = 0;
    *clock_ns = 0;
    for (unsigned i = 0; i < turns; i++) {
        given_ns += sampling_share_ns(&share, 1, MS_NS);
        for (unsigned sample = 0; sample < 4; sample++)
            given_ns += sampling_share_ns(&share, 10, (uint64_t)(too_much * MS_NS / 40));
        *clock_ns += 2 * MS_NS;
        sampling_share_note(&share, given_ns, *clock_ns);
    }
    return given_ns;
}

TEST(what_thinned_births_weigh_too_much_is_learned)
{
    uint64_t clock_ns, given_ns = given_after(1000, 2.5, &clock_ns);
    CHECK(given_ns > clock_ns - MS_NS / 20 && given_ns < clock_ns + MS_NS / 20);
    /* No more than 3/4, and of the rest a half, can be cut; nothing is added. */
    given_ns = given_after(1000, 100, &clock_ns);
    CHECK(given_ns > clock_ns * 6 && given_ns < clock_ns * 8);
    given_ns = given_after(1000, 0.5, &clock_ns);
    CHECK_U64(given_ns, clock_ns / 4 * 3);
    given_ns = given_after(1000, 1, &clock_ns);
    CHECK_U64(given_ns, clock_ns);
}

TEST(what_is_too_much_can_become_less)
{
    struct sampling_share share = {.excess = 0.5};
    for (unsigned i = 0; i < 20; i++) {
        CHECK_U64(sampling_share_ns(&share, 8, MS_NS / 8), (uint64_t)(MS_NS * (1 - share.excess)));
        sampling_share_note(&share, MS_NS, 10 * MS_NS);
    }
    CHECK(share.excess == 0);
    sampling_share_note(&share, 0, 10 * MS_NS); /* no thinned births at all */
    CHECK_U64(share.ahead_ns, 0);
}

TEST(births_that_stand_for_themselves_are_not_cut)
{
    struct sampling_share share = {.ahead_ns = 10 * MS_NS, .excess = 0.75};
    CHECK_U64(sampling_share_ns(&share, 1, MS_NS), MS_NS);
    CHECK_U64(sampling_share_ns(&share, 0, MS_NS), MS_NS);
    CHECK_U64(share.whole_ns, 0);
}
