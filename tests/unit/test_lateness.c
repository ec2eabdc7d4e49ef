/* lateness: the median of how late samples come is followed. */
#include "lateness.h"

#include "check.h"

#define PERIOD_NS 1000000u

TEST(a_few_samples_bring_it_near)
{
    struct lateness lateness = {0};
    for (uint64_t i = 1; i <= 12; i++)
        lateness_note(&lateness, PERIOD_NS, i * PERIOD_NS + 46000);
    CHECK_U64(lateness.ns, 46000);
}

/* One in three is as late as it may be at all. */
TEST(single_late_ones_do_not_move_it_much)
{
    struct lateness lateness = {0};
    for (uint64_t i = 1; i <= 3000; i++)
        lateness_note(&lateness, PERIOD_NS, i * PERIOD_NS + (i % 3 == 0 ? 400000 : 10000));
    CHECK(lateness.ns >= 10000 && lateness.ns <= 12000);
}

TEST(it_falls_as_well)
{
    struct lateness lateness = {.ns = 50000};
    for (uint64_t i = 1; i <= 200; i++)
        lateness_note(&lateness, PERIOD_NS, i * PERIOD_NS + 3000);
    CHECK_U64(lateness.ns, 3000);
}

/* As where a sample is not of this period's points: it would be half of it late. */
TEST(what_tells_nothing_is_not_heard)
{
    struct lateness lateness = {0};
    lateness_note(&lateness, 99999, 110000);
    lateness_note(&lateness, PERIOD_NS, PERIOD_NS * 3 / 2);
    CHECK_U64(lateness.ns, 0);
    CHECK_U64(lateness.noted, 0);
}
