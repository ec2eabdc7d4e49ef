/* collector: what becomes of the records in profile, modules and threads. */
#include "collector_rings.h"
#include "record.h"

TEST(a_sample_weighs_what_passed_since_the_last)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    put_sample(thread, 100, 900000);
    put_sample(thread, 200, 2000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_of("one"), 2000000);
    CHECK_U64(collector.profile.samples, 2);
    CHECK_U64(collector.whole, 2);
    CHECK_U64(pauses, 2);
    end_all();
}

/* A first point at a tenth of the period weighs a period; it stands for eight threads. */
TEST(thinned_births_do_not_run_ahead_of_the_clock)
{
    static const struct {
        uint64_t own, clock, weight; /* in periods */
    } cases[] = {{0, 9, 8}, {0, 0, 8}, {3, 1, 6}, {3, 3, 8}, {9, 0, 4}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare(true);
        struct thread *thread = thread_with_ring(900, "one");
        REQUIRE(thread != NULL);
        thread->plain = false;
        thread->one_in = 8;
        thread->birth_nominal_ns = PERIOD_NS;
        thread->period_ns = PERIOD_NS / 10;
        collector.threads.own_ns = cases[i].own * PERIOD_NS;
        collector_note_clock(&collector, cases[i].clock * PERIOD_NS);
        put_sample(thread, 100, PERIOD_NS / 10);
        collector_drain(&collector, UINT64_MAX);
        CHECK_U64(weight_of("one"), cases[i].weight * PERIOD_NS);
        end_all();
    }
}

TEST(nothing_younger_is_taken)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one"), *two = thread_with_ring(901, "two");
    REQUIRE(one != NULL && two != NULL);
    put_sample(one, 100, 1000000);
    put_sample(one, 300, 3000000);
    put_sample(two, 250, 7000000);
    collector_drain(&collector, 250);
    CHECK_U64(weight_of("one"), 1000000);
    CHECK_U64(weight_of("two"), 7000000);
    collector_drain(&collector, 299);
    CHECK_U64(weight_of("one"), 1000000);
    collector_drain(&collector, 300);
    CHECK_U64(weight_of("one"), 3000000);
    end_all();
}

TEST(one_ring_is_taken_up_to_a_moment)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one"), *two = thread_with_ring(901, "two");
    REQUIRE(one != NULL && two != NULL);
    put_sample(one, 100, 1000000);
    put_sample(one, 300, 3000000);
    put_sample(two, 50, 7000000);
    collector_drain_thread(&collector, one, 299);
    CHECK_U64(weight_of("one"), 1000000);
    CHECK_U64(weight_of("two"), 0);
    CHECK(ring_has_data(&one->ring));
    end_all();
}

/* The name of a thread may change in the ring of another: the order is that of time, over all. */
TEST(records_of_many_rings_come_in_the_order_of_time)
{
    enum { RINGS = 40 };
    struct thread *threads[RINGS];
    prepare(true);
    for (int i = 0; i < RINGS; i++)
        REQUIRE((threads[i] = thread_with_ring(900 + i, "before")) != NULL);
    for (int i = 0; i < RINGS; i++) {
        uint64_t time_ns = 1000 + (uint64_t)(i * 17 % RINGS) * 10;
        put_sample(threads[i], time_ns - 5, 1000000);
        put_sample(threads[i], time_ns + 5000, 3000000);
    }
    /* Each is told of by its neighbour, after both. */
    for (int i = 0; i < RINGS; i++) {
        char name[16];
        struct thread *neighbour = threads[(i + 1) % RINGS];
        struct thread named = {.tid = threads[i]->tid, .event = neighbour->event};
        snprintf(name, sizeof name, "n%d", i);
        put_name(&named, 9000 + (uint64_t)i, 0, name);
    }
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_of("before"), 3000000u * RINGS);
    for (int i = 0; i < RINGS; i++)
        put_sample(threads[i], 20000, 4000000);
    collector_drain(&collector, UINT64_MAX);
    for (int i = 0; i < RINGS; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        CHECK_U64(weight_of(name), 1000000);
    }
    end_all();
}

TEST(a_sample_has_the_name_of_its_moment)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "old"), *two = thread_with_ring(901, "two");
    REQUIRE(one != NULL && two != NULL);
    put_sample(one, 100, 1000000);
    put_name(one, 150, 0, "new");
    put_sample(one, 200, 3000000);
    put_sample(two, 175, 1000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_of("old"), 1000000);
    CHECK_U64(weight_of("new"), 2000000);
    end_all();
}

TEST(modules_are_looked_for_at_the_first_sample)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one");
    REQUIRE(one != NULL);
    put_name(one, 50, 0, "still one");
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.modules.list.count, 0);
    put_sample(one, 100, 1000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK(collector.modules.list.count > 0);
    end_all();
}

/* The weight of the stacks whose second frame is that label. */
static uint64_t weight_under(const char *label)
{
    const struct profile *profile = &collector.profile;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile_node_count(profile); i++) {
        uint32_t second = i;
        while (profile_node_at(profile, second)->depth > 2)
            second = profile_node_at(profile, second)->parent;
        const struct profile_node *node = profile_node_at(profile, second);
        const struct profile_frame *frame = profile_frame_at(profile, node->frame);
        if (node->depth == 2 && frame->module == FRAME_OF_LABEL &&
            strcmp(stack_text(&collector.stacks, frame->address), label) == 0)
            sum += profile_node_at(profile, i)->weight_ns;
    }
    return sum;
}

TEST(a_sample_has_the_label_of_its_moment)
{
    static struct labels labels;
    REQUIRE(labels_prepare(&labels) == 0);
    prepare(true);
    collector.labels = &labels;
    collector.stacks.labels = &labels;
    struct thread *one = thread_with_ring(900, "one");
    struct label_entry *entry = label_entry_take(&labels, 900);
    REQUIRE(one != NULL && entry != NULL);
    label_set(&labels, entry, label_find(&labels, "early;bird"), 150, true);
    label_set(&labels, entry, label_find(&labels, "late"), 250, true);
    label_set(&labels, entry, LABEL_NONE, 350, true);
    put_sample(one, 100, 1000000);
    put_sample(one, 200, 3000000);
    put_sample(one, 300, 6000000);
    put_sample(one, 400, 10000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_under("early:bird"), 2000000);
    CHECK_U64(weight_under("late"), 3000000);
    CHECK_U64(weight_of("one"), 10000000);
    end_all();
}

TEST(samples_in_a_pause_weigh_nothing)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one");
    REQUIRE(one != NULL);
    put_sample(one, 100, 1000000);
    collector_drain(&collector, UINT64_MAX);
    collector.paused = true;
    put_sample(one, 200, 3000000);
    put_name(one, 250, 0, "new");
    collector_drain(&collector, UINT64_MAX);
    collector.paused = false;
    put_sample(one, 300, 6000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_of("one"), 1000000);
    CHECK_U64(weight_of("new"), 3000000);
    CHECK_U64(collector.profile.samples, 2);
    end_all();
}

TEST(after_an_exec_nothing_is_ours)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one"), *two = thread_with_ring(901, "two");
    REQUIRE(one != NULL && two != NULL);
    put_sample(one, 100, 1000000);
    put_name(one, 150, PERF_RECORD_MISC_COMM_EXEC, "other");
    put_sample(one, 200, 3000000);
    put_sample(two, 300, 1000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK(collector.exec_seen);
    CHECK_U64(weight_of("one"), 1000000);
    CHECK_U64(weight_of("two") + weight_of("other"), 0);
    end_all();
}

TEST(births_and_deaths)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    collector.scan_wanted = false;
    put_task(thread, PERF_RECORD_FORK, 100, getpid() + 1, 5000); /* a process */
    put_task(thread, PERF_RECORD_FORK, 110, getpid(), 900);      /* one we know */
    collector_drain(&collector, UINT64_MAX);
    CHECK(!collector.scan_wanted);
    put_task(thread, PERF_RECORD_FORK, 120, getpid(), 5001);
    put_task(thread, PERF_RECORD_EXIT, 130, getpid(), 5002);
    collector_drain(&collector, UINT64_MAX);
    CHECK(collector.scan_wanted);
    CHECK(!thread->dead);
    put_task(thread, PERF_RECORD_EXIT, 140, getpid(), 900);
    collector_drain(&collector, UINT64_MAX);
    CHECK(thread->dead);
    end_all();
}

TEST(only_this_process_maps_modules)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    put_map(thread, 100, getpid(), 0x10000);
    put_map(thread, 110, getpid() + 1, 0x20000);
    collector_drain(&collector, UINT64_MAX);
    struct region *region = modules_find(&collector.modules, 0x10800);
    REQUIRE(region != NULL);
    CHECK_STR(modules_at(&collector.modules, region->module)->path, "/mapped");
    CHECK(modules_find(&collector.modules, 0x20800) == NULL);
    end_all();
}

TEST(losses_are_counted_where_they_matter)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    collector.scan_wanted = collector.maps_wanted = false;
    put_lost(thread, 100, 7);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.lost, 0); /* the next sample of a birth carries them */
    CHECK(collector.scan_wanted && collector.maps_wanted);
    CHECK_U64(thread->lost_since_sample, 7);
    thread->settled = true;
    put_lost(thread, 200, 9);
    const uint64_t throttle[] = {header(PERF_RECORD_THROTTLE, 0, 6), 300, 1, 1, 0, 300};
    put(thread, throttle, 6);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.lost, 9);
    CHECK_U64(collector.throttled, 1);
    end_all();
}

/* Most of each period is stolen, which is noticed at a gap that is shorter than all of that. */
TEST(no_sample_weighs_less_than_nothing)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    thread->settled = true;
    thread->base_cpu_ns = 1;
    thread->end_cpu_ns = 1 + PERIOD_NS;
    for (uint64_t i = 1; i <= 10; i++)
        put_sample(thread, 100 * i, i * PERIOD_NS);
    put_sample(thread, 5000, 13 * PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(collector.profile.samples, 11);
    CHECK_U64(weight_of("one"), 10 * PERIOD_NS + 1);
    end_all();
}

/* A birth's clock event ran on while its thread did not: 0.2 ms are known to be its. */
TEST(a_birth_weighs_no_more_than_its_thread_has_used)
{
    prepare(true);
    struct thread *one = thread_with_ring(900, "one"), *many = thread_with_ring(901, "many");
    REQUIRE(one != NULL && many != NULL);
    one->base_cpu_ns = many->base_cpu_ns = one->birth_cpu_ns = many->birth_cpu_ns = 1000;
    one->end_cpu_ns = many->end_cpu_ns = 201000;
    one->plain = many->plain = false;
    many->one_in = 16;
    many->birth_nominal_ns = PERIOD_NS / 8;
    many->period_ns = PERIOD_NS / 16;
    put_sample(one, 100, 100 * PERIOD_NS);
    put_sample(many, 100, 100 * PERIOD_NS);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(thread_used_ns(one), 200000);
    CHECK_U64(thread_used_ns(many), 200000);
    CHECK(weight_of("one") <= PERIOD_NS);
    CHECK(weight_of("many") <= 16 * PERIOD_NS / 8);
    CHECK_U64(collector.longest_ns, 200000);
    end_all();
}

TEST(damaged_rings_do_no_harm)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    uint64_t random = 7;
    for (unsigned round = 0; round < 20000; round++) {
        uint64_t words[16];
        random = random * 6364136223846793005u + 1442695040888963407u;
        size_t count = 1 + (random >> 40) % 16;
        for (size_t i = 0; i < count; i++)
            words[i] = random >> (i * 5 % 32);
        words[0] = header((uint32_t)(random >> 33) % 14, (uint16_t)(round % 3 == 0 ? random : 0),
                          (random >> 60) < 12 ? count : (random >> 50) % 20);
        put(thread, words, count);
        collector.exec_seen = false;
        collector_drain(&collector, UINT64_MAX);
        CHECK(!ring_has_data(&thread->ring));
    }
    end_all();
}

TEST(a_count_that_runs_backwards_weighs_nothing)
{
    prepare(true);
    struct thread *thread = thread_with_ring(900, "one");
    REQUIRE(thread != NULL);
    put_sample(thread, 100, 3000000);
    put_sample(thread, 200, 1000000);
    collector_drain(&collector, UINT64_MAX);
    CHECK_U64(weight_of("one"), 3000000);
    end_all();
}

TEST(every_allocation_of_the_start_may_fail)
{
    unsigned refused = 0;
    for (int nth = 1; nth < 40; nth++) {
        const struct collector_setup setup = {
            .arena = &arena,
            .config = &config,
            .plan = {.traits = &traits, .period_ns = PERIOD_NS, .app_pid = getpid()},
            .library = &no_library};
        arena_destroy(&arena);
        arena.fail_countdown = nth;
        refused += collector_init(&collector, &setup) != 0;
        arena.fail_countdown = 0;
    }
    CHECK(refused >= 4 && refused < 20); /* what it cannot do without */
}
