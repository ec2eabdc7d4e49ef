/*
 * When to sample and what a sample weighs, so that neither a thread's birth nor a rhythm of the
 * program bends the profile.
 *
 * The kernel's clock events fire every period, counted from where the event was opened. Two truths
 * follow that a plain fixed period gets wrong:
 *
 * A thread that lives less than a period would never be seen, and one that lives for 1.45 periods
 * only in the same place. So a thread is *born* with a period Q of its own, drawn uniformly from
 * (0, P], and the points t = Q, 2Q, 3Q, ... of its CPU time at which it was sampled are weighed so
 * that, over all draws of Q, every moment of a life counts the same, however short the life is (a
 * Horvitz-Thompson estimate). Below P only the first point counts; its density is 1/P, so it weighs
 * P. From P on, the points of draws Q >= P/4 count, and weigh Q / e(t): with weights of Q, which
 * sum to the CPU time of each single thread, the points at t would on the average count e(t) = sum
 * of f(t/j) (t/j) / j = (t/P) sum of 1/j^2, over the j with t/j in [P/4, P]. (Faster draws would
 * fill a small ring long before it is read; their first point is enough.) Draws are bounded from
 * below, which bounds the rate at which a young thread is interrupted. Interrupts are late
 * (lateness.h): the points that count begin that much after the shortest draw, and a thread that
 * ends meanwhile makes none. So a first point of the shortest draw speaks for all of the time up to
 * it, and weighs P t / Q; and what is said above of P and t holds that much later. (Where draws are
 * not even, each weighs as much less as it is made more often.)
 *
 * A thread that lives on is *settled* by the helper after a few ms: its event is replaced by one
 * whose period is drawn anew now and then within a quarter of P, which breaks any beat with the
 * program. There a sample weighs the CPU time that has passed since the sample before it, and what
 * is left at the end belongs to the last one: the sum is the thread's clock by construction.
 *
 * Thread safety: pure functions.
 */
#ifndef SELFSAMPLE_CORE_SAMPLING_H
#define SELFSAMPLE_CORE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Where threads come very fast, opening an event costs more than many a thread does itself. Births
 * are then thinned: one in N, drawn by lot, opens its event, and its samples weigh N times as much
 * until it is settled; one that is passed over has none until then. Settling must not depend on the
 * lot. To make up for what that takes from the number of samples, the births that are chosen are
 * sampled faster, by a nominal period of their own.
 */
uint64_t sampling_birth_nominal_ns(uint64_t nominal_ns, uint32_t one_in);

/*
 * The nominal period of births that are not thinned and will be settled, but for a process's first
 * thread, on which it depends whether a short process has samples at all. Draws from (0, P]
 * interrupt a young thread four times as often as the nominal period says, on the average. That is
 * a good part of what threads of a few ms do, at a high rate. So P is 2 ms here where the nominal
 * one is shorter, or four of those where they are shorter still.
 */
uint64_t sampling_later_birth_nominal_ns(uint64_t nominal_ns);

/*
 * Draws below P/4 are a quarter of all, make two thirds of those interrupts, and only the first of
 * each counts. So of later births they are made R times less often, and weigh R times as much; the
 * others are made that much more often and weigh less. Where threads are few, a single such sample
 * would bend the profile: the process's first births, by their NUMBER from 0, have R = 1. So have
 * those of slow rates, where interrupts are few.
 */
uint32_t sampling_later_birth_fast_rarity(uint64_t nominal_ns, uint64_t number);

/*
 * The weights of thinned births' samples stand for many threads, and so does what the sampling
 * itself costs those that are chosen: their sum must not run ahead of the process's clock. As far
 * as it does the next ones weigh less, and what part they have to give up in the long run is
 * learned, so that it does not have to get ahead again and again.
 */
struct sampling_share {
    uint64_t ahead_ns; /* by this the sum is, as far as no weight was cut for it yet */
    uint64_t whole_ns; /* all thinned weights since the clock was last read, uncut */
    double excess;     /* the part of them that is too much, as learned: from 0 to 3/4 */
};

/* The clock stands at CLOCK_NS, and all that was given sums up to GIVEN_NS. */
void sampling_share_note(struct sampling_share *share, uint64_t given_ns, uint64_t clock_ns);

/* What WEIGHT_NS of one birth in ONE_IN count. */
uint64_t sampling_share_ns(struct sampling_share *share, uint32_t one_in, uint64_t weight_ns);

/*
 * The lots of one process's births, numbered as they come, from a random SEED. Of each N births in
 * a row one is chosen, and of each SAMPLING_STRATA chosen ones in a row the numbers for their
 * periods fall one into each of as many equal parts of the range: so the sums of many like threads
 * vary little, and yet there is no order that a program could be in step with.
 */
#define SAMPLING_STRATA 16u
bool sampling_birth_is_chosen(uint64_t seed, uint64_t number, uint32_t one_in);
uint64_t sampling_birth_random(uint64_t seed, uint64_t number, uint32_t one_in);

/* A thread that is older than this (in nominal periods) and not settled yet is weighed by
 * differences of its clock all the same: e(t) has come to its limit, and one life is long enough to
 * speak for itself. */
#define SAMPLING_BIRTH_PERIODS 16u

/* A well-mixed 64-bit number from any seed (the finalizer of splitmix64, Steele et al. 2014). */
uint64_t sampling_mix(uint64_t seed);

/* How a thread's first event samples it. */
struct sampling_birth {
    uint64_t nominal_ns;  /* P, its own */
    uint32_t fast_rarity; /* R: draws below P/4 are made so many times less often; 1: evenly */
    uint64_t shortest_ns; /* that may be drawn */
    uint64_t period_ns;   /* Q, that was */
};

/*
 * Draws a birth's period, random in [Q_min, P], FAST_RARITY times less often below P/4. Interrupts
 * come LATE_NS late, and that is about what they cost where they are very late: an event that fires
 * as fast leaves its thread no time to get on. So draws are no shorter than that.
 */
struct sampling_birth sampling_birth_draw(uint64_t nominal_ns, uint32_t fast_rarity,
                                          uint64_t late_ns, uint64_t random);

/* An event of period BIRTH_NS has made its first record at COUNT_NS of its thread's CPU time: is
 * that of its first point, or did that make none? Interrupts are LATE_NS late. */
bool sampling_birth_is_first(uint64_t birth_ns, uint64_t count_ns, uint64_t late_ns);

/*
 * What a sample weighs that BIRTH's event took at COUNT_NS of the thread's CPU time, LATE_NS late.
 * FIRST: it is of the event's first point. 0: the sample does not count.
 */
uint64_t sampling_birth_weight_ns(const struct sampling_birth *birth, uint64_t count_ns, bool first,
                                  uint64_t late_ns);

/*
 * What those points of a birth's event weigh that lie after AFTER_NS, where it was sampled last (0:
 * never), and not after UNTIL_NS, and made no record: where the kernel makes none of its own time,
 * they fell into that. Beyond SAMPLING_BIRTH_PERIODS each is a period of the event's own.
 */
uint64_t sampling_birth_missed_ns(const struct sampling_birth *birth, uint64_t after_ns,
                                  uint64_t until_ns, uint64_t late_ns);

/* How much before a record other points of its event must lie, so as not to be its own: interrupts
 * are LATE_NS late, the one before it too, but for the first one; and points that pass meanwhile
 * make none. */
uint64_t sampling_birth_point_ns(uint64_t birth_ns, uint64_t after_ns, uint64_t late_ns);

/*
 * What a sample weighs that a timer took at COUNT_NS of the thread's CPU time, BEFORE_NS at the one
 * before it. The FIRST of a thread stands for a whole period, however early it comes: of many
 * threads that are shorter than that, as many in a period's time have one.
 */
uint64_t sampling_timer_weight_ns(uint64_t nominal_ns, uint64_t count_ns, uint64_t before_ns,
                                  bool first);

/* A period within a quarter of P. */
uint64_t sampling_settled_period_ns(uint64_t nominal_ns, uint64_t random);

#endif
