/* Random periods and the weights of samples. Pure; runs in the app's threads and in the helper. */
#include "sampling.h"

#include "event.h"

/* Draws of a birth period are never shorter than this part of the nominal period, nor need they be
 * longer than the second: threads that live less than the shortest draw are never seen. */
#define BIRTH_FRACTION 32u
#define BIRTH_FLOOR_NS 31250u

/* The shortest nominal period of thinned births: short threads then have a sample each or two. */
#define THINNED_NOMINAL_MIN_NS 125000u

/* The shortest nominal period of later births, as far as so many nominal ones go. */
#define LATER_NOMINAL_MIN_NS 2000000u
#define LATER_PERIODS_MAX    4u

/* The most that the weight of a thinned birth's sample is changed to follow the clock; what of such
 * an error is taken for lasting, at each look at the clock; and the most that it may come to. */
#define CLOCK_STEP_PART 2u
#define LASTING_PART    (1.0 / 16)
#define EXCESS_MAX      0.75

/* Draws of less than this part of the nominal period count with their first point only. Where they
 * are to be rare they are made this many times less often, once there were so many births. */
#define FAST_FRACTION 4u
#define FAST_RARITY   4u
#define FEW_BIRTHS    32u

uint64_t sampling_mix(uint64_t seed)
{
    seed += 0x9e3779b97f4a7c15u;
    seed = (seed ^ (seed >> 30)) * 0xbf58476d1ce4e5b9u;
    seed = (seed ^ (seed >> 27)) * 0x94d049bb133111ebu;
    return seed ^ (seed >> 31);
}

static uint64_t shortest_draw_ns(uint64_t nominal_ns, uint64_t late_ns)
{
    uint64_t shortest_ns = nominal_ns / BIRTH_FRACTION;
    if (shortest_ns > BIRTH_FLOOR_NS)
        shortest_ns = BIRTH_FLOOR_NS;
    if (shortest_ns < late_ns)
        shortest_ns = late_ns;
    if (shortest_ns > nominal_ns)
        shortest_ns = nominal_ns;
    return shortest_ns < EVENT_PERIOD_MIN_NS ? EVENT_PERIOD_MIN_NS : shortest_ns;
}

static bool is_fast(const struct sampling_birth *birth)
{
    return birth->period_ns * FAST_FRACTION < birth->nominal_ns;
}

/* By how much more often than evenly the draws that are not fast are made. */
static double slow_density(uint32_t fast_rarity)
{
    return (FAST_FRACTION - 1.0 / fast_rarity) / (FAST_FRACTION - 1.0);
}

/* The part of all draws that are below PART of the nominal period. */
static double drawn_below(double part, uint32_t fast_rarity)
{
    const double fast = 1.0 / FAST_FRACTION;
    return part < fast ? part / fast_rarity
                       : fast / fast_rarity + (part - fast) * slow_density(fast_rarity);
}

/* LOW + a number drawn from [0, SPAN). The high half of the product keeps it even. */
static uint64_t draw(uint64_t low, uint64_t span, uint64_t random)
{
    return low + (uint64_t)(((unsigned __int128)random * span) >> 64);
}

uint64_t sampling_birth_nominal_ns(uint64_t nominal_ns, uint32_t one_in)
{
    if (one_in <= 1 || nominal_ns <= THINNED_NOMINAL_MIN_NS)
        return nominal_ns;
    uint64_t faster_ns = nominal_ns / one_in;
    return faster_ns > THINNED_NOMINAL_MIN_NS ? faster_ns : THINNED_NOMINAL_MIN_NS;
}

uint64_t sampling_later_birth_nominal_ns(uint64_t nominal_ns)
{
    uint64_t longest_ns = LATER_PERIODS_MAX * nominal_ns;
    uint64_t later_ns = longest_ns < LATER_NOMINAL_MIN_NS ? longest_ns : LATER_NOMINAL_MIN_NS;
    return later_ns > nominal_ns ? later_ns : nominal_ns;
}

static double between(double value, double least, double most)
{
    return value < least ? least : value > most ? most : value;
}

void sampling_share_note(struct sampling_share *share, uint64_t given_ns, uint64_t clock_ns)
{
    share->ahead_ns = given_ns > clock_ns ? given_ns - clock_ns : 0;
    if (share->whole_ns == 0)
        return;
    double error = ((double)given_ns - (double)clock_ns) / (double)share->whole_ns;
    double excess = share->excess + between(error, -1, 1) * LASTING_PART;
    share->excess = between(excess, 0, EXCESS_MAX);
    share->whole_ns = 0;
}

uint64_t sampling_share_ns(struct sampling_share *share, uint32_t one_in, uint64_t weight_ns)
{
    if (one_in <= 1)
        return weight_ns;
    uint64_t whole_ns = weight_ns * one_in;
    uint64_t rest_ns = (uint64_t)((double)whole_ns * (1 - share->excess));
    uint64_t most_ns = rest_ns / CLOCK_STEP_PART;
    uint64_t step_ns = most_ns < share->ahead_ns ? most_ns : share->ahead_ns;
    share->ahead_ns -= step_ns;
    share->whole_ns += whole_ns;
    return rest_ns - step_ns;
}

bool sampling_birth_is_chosen(uint64_t seed, uint64_t number, uint32_t one_in)
{
    return one_in <= 1 || draw(0, one_in, sampling_mix(seed ^ number / one_in)) == number % one_in;
}

uint64_t sampling_birth_random(uint64_t seed, uint64_t number, uint32_t one_in)
{
    uint64_t chosen = one_in > 1 ? number / one_in : number;
    /* Another order of the parts in each round; any number in this one's part. */
    uint64_t order = sampling_mix(~seed ^ chosen / SAMPLING_STRATA);
    uint64_t part = (chosen ^ order) % SAMPLING_STRATA;
    return part << 60 | sampling_mix(~seed + number) >> 4;
}

uint32_t sampling_later_birth_fast_rarity(uint64_t nominal_ns, uint64_t number)
{
    return number < FEW_BIRTHS || nominal_ns >= LATER_NOMINAL_MIN_NS ? 1 : FAST_RARITY;
}

/* RANDOM of an even draw, turned into that of one with rare fast draws. */
static uint64_t with_rare_fast(uint64_t random, uint32_t fast_rarity)
{
    const double whole = 18446744073709551616.0, fast = 1.0 / FAST_FRACTION;
    double below = (double)random / whole;
    double part = below < fast / fast_rarity
                      ? below * fast_rarity
                      : fast + (below - fast / fast_rarity) / slow_density(fast_rarity);
    return part < 1 ? (uint64_t)(part * whole) : UINT64_MAX;
}

struct sampling_birth sampling_birth_draw(uint64_t nominal_ns, uint32_t fast_rarity,
                                          uint64_t late_ns, uint64_t random)
{
    if (fast_rarity > 1)
        random = with_rare_fast(random, fast_rarity);
    struct sampling_birth birth = {nominal_ns, fast_rarity, shortest_draw_ns(nominal_ns, late_ns),
                                   draw(1, nominal_ns, random)};
    if (birth.period_ns < birth.shortest_ns)
        birth.period_ns = birth.shortest_ns;
    return birth;
}

/* e(t), see sampling.h. */
static double expected_weight(uint64_t nominal_ns, uint64_t count_ns)
{
    double periods = (double)count_ns / (double)nominal_ns;
    uint64_t last = (uint64_t)(periods * FAST_FRACTION);
    double sum = 0;
    for (uint64_t j = (uint64_t)periods + 1; j <= last; j++)
        sum += 1.0 / ((double)j * (double)j);
    return periods * sum;
}

bool sampling_birth_is_first(uint64_t birth_ns, uint64_t count_ns, uint64_t late_ns)
{
    return count_ns < birth_ns + (birth_ns > 2 * late_ns ? birth_ns : 2 * late_ns);
}

uint64_t sampling_birth_weight_ns(const struct sampling_birth *birth, uint64_t count_ns, bool first,
                                  uint64_t late_ns)
{
    double nominal = (double)birth->nominal_ns;
    if (first && birth->period_ns <= birth->shortest_ns && count_ns < birth->nominal_ns)
        return (uint64_t)((double)count_ns /
                          drawn_below((double)birth->shortest_ns / nominal, birth->fast_rarity));
    if (first && is_fast(birth))
        return birth->nominal_ns * birth->fast_rarity;
    if (first)
        return (uint64_t)(nominal / slow_density(birth->fast_rarity));
    if (count_ns < birth->nominal_ns + late_ns || is_fast(birth))
        return 0;
    return (uint64_t)((double)birth->period_ns /
                      expected_weight(birth->nominal_ns, count_ns - late_ns) /
                      slow_density(birth->fast_rarity));
}

uint64_t sampling_birth_missed_ns(const struct sampling_birth *birth, uint64_t after_ns,
                                  uint64_t until_ns, uint64_t late_ns)
{
    uint64_t shift_ns = after_ns == 0 ? late_ns : 0; /* AFTER_NS is late itself */
    uint64_t last_ns = SAMPLING_BIRTH_PERIODS * birth->nominal_ns, period_ns = birth->period_ns;
    uint64_t sum_ns = 0, t = after_ns + period_ns;
    while (t <= last_ns && t <= until_ns) {
        bool first = after_ns == 0 && t == period_ns;
        sum_ns += sampling_birth_weight_ns(birth, t + shift_ns, first, late_ns);
        /* Of a fast one, none counts but the first. */
        t += is_fast(birth) ? ((last_ns - t) / period_ns + 1) * period_ns : period_ns;
    }
    return t <= until_ns ? sum_ns + ((until_ns - t) / period_ns + 1) * period_ns : sum_ns;
}

uint64_t sampling_birth_point_ns(uint64_t birth_ns, uint64_t after_ns, uint64_t late_ns)
{
    bool is_passed_over = birth_ns <= 2 * late_ns;
    if (after_ns == 0)
        return is_passed_over ? 2 * late_ns : birth_ns;
    return is_passed_over ? birth_ns + late_ns : birth_ns * 3 / 4;
}

uint64_t sampling_timer_weight_ns(uint64_t nominal_ns, uint64_t count_ns, uint64_t before_ns,
                                  bool first)
{
    uint64_t passed_ns = count_ns - before_ns;
    return first && passed_ns < nominal_ns ? nominal_ns : passed_ns;
}

uint64_t sampling_settled_period_ns(uint64_t nominal_ns, uint64_t random)
{
    uint64_t span = nominal_ns / 2;
    uint64_t period = draw(nominal_ns - span / 2, span + 1, random);
    return period < EVENT_PERIOD_MIN_NS ? EVENT_PERIOD_MIN_NS : period;
}
