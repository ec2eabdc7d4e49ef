/* collector: where time in the kernel makes no samples, its points are told from lost records. */
#include "collector_rings.h"
#include "sampling.h"

/* Without kernel samples an event that fires in the kernel leaves a gap of a whole period. */
TEST(gaps_are_the_kernels_where_its_samples_are_refused)
{
    prepare(false);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    thread->settled = true;
    put_sample(thread, 100, PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.kernel.ns, 0);
    put_sample(thread, 200, 2 * PERIOD_NS + 100);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.kernel.ns, 0);
    CHECK_U64(weight_of("one"), 2 * PERIOD_NS + 100);
    put_lost(thread, 250, 2); /* the two before this sample */
    put_sample(thread, 300, 5 * PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.kernel.ns, 0);
    put_sample(thread, 400, 8 * PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.kernel.ns, 2 * PERIOD_NS);
    CHECK_U64(weight_of("one"), 8 * PERIOD_NS);
    thread->period_is_new = true; /* up to three may have been others */
    put_sample(thread, 500, 18 * PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.kernel.ns, 9 * PERIOD_NS);
    CHECK_U64(weight_of("one"), 18 * PERIOD_NS);
    end_all();
}

/* A birth with half a nominal period whose first two points fell into the kernel: the first weighs
 * a period, the second what a record there would. Or the record of one, or of both, was lost: what
 * it would weigh is the next one's. */
TEST(points_of_births_without_a_record_are_the_kernels)
{
    static const struct {
        bool kernel_frames;
        uint64_t lost, missed; /* points */
    } cases[] = {{false, 0, 2}, {false, 1, 1}, {false, 2, 0}, {false, 3, 0}, {true, 0, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare(cases[i].kernel_frames);
        struct thread *thread = thread_with_ring(900, "one");
        REQUIRE(thread != NULL);
        thread->plain = false;
        thread->period_ns = PERIOD_NS / 2;
        thread->lost_since_sample = cases[i].lost;
        put_sample(thread, 100, PERIOD_NS * 3 / 2 + 1000);
        collector_drain(&collector, UINT64_MAX);
        uint64_t late_ns = collector.lateness.ns; /* the sample is */
        const struct sampling_birth birth = {PERIOD_NS, 1, 0, PERIOD_NS / 2};
        uint64_t second_ns = sampling_birth_weight_ns(&birth, PERIOD_NS + late_ns, false, late_ns);
        uint64_t both_ns = cases[i].kernel_frames ? 0 : PERIOD_NS + second_ns;
        uint64_t third_ns = PERIOD_NS; /* where kernel samples are made it is the first */
        if (!cases[i].kernel_frames)
            third_ns = sampling_birth_weight_ns(&birth, PERIOD_NS * 3 / 2 + 1000, false, late_ns);
        CHECK_U64(late_ns, 1000);
        CHECK(second_ns > PERIOD_NS / 4);
        CHECK_U64(collector.kernel.ns, both_ns - both_ns * (2 - cases[i].missed) / 2);
        CHECK_U64(thread->missed, cases[i].missed);
        CHECK_U64(weight_of("one"), both_ns + third_ns);
        CHECK_U64(thread->weight_ns, weight_of("one"));
        end_all();
    }
}

/* A birth that is 16 periods old and not settled: what its points stand for are periods of its own,
 * however many of them made no record. So it is with one that is plain, from the beginning. */
TEST(points_of_old_births_are_the_kernels_too)
{
    static const struct {
        bool plain;
        uint64_t lost, missed; /* between the two samples */
    } cases[] = {{false, 0, 11}, {false, 4, 7}, {true, 0, 11}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare(false);
        struct thread *thread = thread_with_ring(900, "one");
        REQUIRE(thread != NULL);
        thread->plain = cases[i].plain;
        put_sample(thread, 100, (cases[i].plain ? 1 : 17) * PERIOD_NS);
        collector_drain(&collector, UINT64_MAX);
        uint64_t before_ns = collector.kernel.ns, weight_ns = weight_of("one");
        CHECK((before_ns > 0) == !cases[i].plain);
        if (cases[i].lost != 0)
            put_lost(thread, 150, cases[i].lost);
        put_sample(thread, 200, thread->count_ns + 12 * PERIOD_NS + 100);
        collector_drain(&collector, UINT64_MAX);
        CHECK_U64(collector.kernel.ns - before_ns, cases[i].missed * PERIOD_NS);
        CHECK_U64(weight_of("one") - weight_ns, 12 * PERIOD_NS + 100);
        CHECK_U64(thread->weight_ns, weight_of("one"));
        end_all();
    }
}

/* The record of the thread's end comes after that of what a full ring has lost. */
TEST(at_its_end_it_is_known_what_a_thread_has_lost)
{
    prepare(false);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    for (unsigned ended = 0; ended < 2; ended++) {
        for (unsigned i = 0; i < 280; i++) /* 56 bytes each */
            put_sample(thread, 100, PERIOD_NS);
        if (ended) {
            put_lost(thread, 110, 3);
            put_task(thread, PERF_RECORD_EXIT, 120, getpid(), 900);
        }
        collector_drain(&collector, UINT64_MAX);
        CHECK(thread->ring_was_full == !ended);
    }
    CHECK(thread->dead);
    CHECK_U64(thread->lost_since_sample, 3);
    end_all();
}
