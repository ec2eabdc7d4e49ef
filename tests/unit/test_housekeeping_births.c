/* housekeeping and accounts: threads whose births stand for others, and the ends of many. */
#include "housekeeping_fixture.h"

/* Its first ms is for others to stand for, the rest its own: it has used 50. */
TEST(a_thread_that_was_passed_over_is_settled_like_others)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    post((struct birth){.tid = worker.tid,
                        .event.fd = -1,
                        .one_in = 8,
                        .nominal_ns = PERIOD_NS / 8,
                        .passed_over = true});
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    if (thread_read_cpu_ns(getpid(), worker.tid) > PERIOD_NS) {
        worker_end(&worker); /* the next test's worker lies where it lay */
        end_all();
        SKIP("the start of a thread takes a period on this machine, just now");
    }
    CHECK(!thread->settled); /* it has done nothing yet */
    worker_go(&worker);
    worker_wait(&worker);
    housekeeping_do(&house, &mailbox);
    CHECK(thread->settled);
    CHECK(thread->owed_ns >= 30 * PERIOD_NS && thread->owed_ns <= thread->base_cpu_ns - PERIOD_NS);
    CHECK_U64(thread->one_in, 1);
    worker_end(&worker);
    end_all();
}

/* So that none is settled before its first event has made a sample, whatever the period drawn. */
TEST(a_birth_of_a_longer_period_is_settled_later)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    post((struct birth){.tid = worker.tid,
                        .event.fd = -1,
                        .nominal_ns = 3600ull * 1000000000u,
                        .passed_over = true});
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    worker_go(&worker);
    worker_wait(&worker);
    housekeeping_do(&house, &mailbox);
    CHECK(!thread->settled && thread_read_cpu_ns(getpid(), worker.tid) > 30 * PERIOD_NS);
    thread->birth_nominal_ns = PERIOD_NS;
    thread->retry_ns = 0;
    housekeeping_do(&house, &mailbox);
    CHECK(thread->settled);
    worker_end(&worker);
    end_all();
}

/* Nor before the books of its life would be balanced, unless its stacks are cut. */
TEST(a_birth_of_a_longer_period_is_settled_when_its_life_speaks_for_itself)
{
    for (unsigned cut = 0; cut < 2; cut++) {
        struct worker worker;
        prepare();
        worker_start(&worker);
        post((struct birth){
            .tid = worker.tid, .event.fd = -1, .nominal_ns = 20 * PERIOD_NS, .passed_over = true});
        struct thread *thread = threads_find(&collector.threads, worker.tid);
        REQUIRE(thread != NULL);
        worker_go(&worker);
        worker_wait(&worker); /* it has used 50 periods, and not 60 */
        housekeeping_do(&house, &mailbox);
        CHECK(!thread->settled || thread_read_cpu_ns(getpid(), worker.tid) > 60 * PERIOD_NS);
        thread->wants_more_stack = cut != 0;
        housekeeping_do(&house, &mailbox);
        CHECK(thread->settled == (cut != 0) ||
              thread_read_cpu_ns(getpid(), worker.tid) > 60 * PERIOD_NS);
        worker_go(&worker);
        worker_wait(&worker);
        thread->retry_ns = 0;
        housekeeping_do(&house, &mailbox);
        CHECK(thread->settled);
        worker_end(&worker);
        end_all();
    }
}

TEST(a_thread_that_was_passed_over_and_ends_is_not_uncovered)
{
    prepare();
    post((struct birth){.tid = 0x7ffffff,
                        .event.fd = -1,
                        .one_in = 8,
                        .nominal_ns = PERIOD_NS / 8,
                        .passed_over = true});
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 100000});
    housekeeping_do(&house, &mailbox);
    CHECK(threads_find(&collector.threads, 0x7ffffff) == NULL);
    CHECK_U64(collector.threads.thinned, 1);
    CHECK_U64(collector.threads.uncovered, 0);
    end_all();
}

TEST(the_start_of_a_chosen_thread_stands_for_the_others)
{
    prepare();
    post((struct birth){.tid = 0x7ffffff,
                        .event.fd = -1,
                        .one_in = 8,
                        .nominal_ns = PERIOD_NS / 8,
                        .cpu_ns = 60000,
                        .before_ns = 5000,
                        .own_ns = 55000,
                        .name = "short"});
    CHECK_U64(collector.profile.weight_ns, 8 * 5000);
    CHECK_U64(collector.threads.own_ns, 55000);
    collector.paused = true;
    post((struct birth){
        .tid = 0x7fffffe, .event.fd = -1, .cpu_ns = 60000, .before_ns = 5000, .own_ns = 55000});
    CHECK_U64(collector.profile.weight_ns, 8 * 5000);
    end_all();
}

static void threads_come_and_go(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        post((struct birth){.tid = 0x7ffffff,
                            .event.fd = -1,
                            .one_in = 8,
                            .nominal_ns = PERIOD_NS / 8,
                            .passed_over = true});
        post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 100000});
        housekeeping_do(&house, &mailbox);
    }
}

/* The clock shows 2 ms more than all accounts. */
TEST(ends_are_booked_up_to_the_clock)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC); /* there are no others */
    collector.scan_wanted = false;
    collector.threads.own_ns = 7 * PERIOD_NS;
    threads_come_and_go(500);
    accounts_book_ends(&house.accounts, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0); /* not yet */
    house.accounts.ends_booked_ns = 0;
    accounts_book_ends(&house.accounts, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    house.accounts.ends_booked_ns = 0;
    accounts_book_ends(&house.accounts, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    accounts_close_all(&house.accounts, 10 * PERIOD_NS, 0);
    CHECK_U64(collector.profile.weight_ns, 3 * PERIOD_NS);
    end_all();
}

/* What it has used may be all that is missing, until its own account is closed. */
TEST(a_thread_that_lives_keeps_ends_from_being_booked)
{
    struct worker worker;
    prepare();
    threads_come_and_go(500);
    worker_start(&worker);
    post((struct birth){.tid = worker.tid,
                        .event.fd = -1,
                        .one_in = 8,
                        .nominal_ns = PERIOD_NS / 8,
                        .passed_over = true});
    worker_go(&worker);
    worker_wait(&worker);
    uint64_t shown_ns = collector.profile.weight_ns;
    house.accounts.ends_booked_ns = 0;
    accounts_book_ends(&house.accounts, shown_ns + 40 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, shown_ns);
    worker_end(&worker);
    end_all();
}

TEST(ends_in_a_pause_are_not_booked)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    collector.paused = true;
    threads_come_and_go(500);
    collector.paused = false;
    accounts_close_all(&house.accounts, 9 * PERIOD_NS, 0);
    CHECK_U64(collector.profile.weight_ns, 0);
    end_all();
}

/* One of 16 like it, with samples of 6 ms. */
static struct thread *chosen_thread(void)
{
    post((struct birth){.tid = 0x7fffffe,
                        .event.fd = -1,
                        .one_in = 16,
                        .nominal_ns = PERIOD_NS / 8,
                        .cpu_ns = 1000});
    struct thread *thread = threads_find(&collector.threads, 0x7fffffe);
    REQUIRE(thread != NULL);
    uint32_t frame = profile_frame(&collector.profile, FRAME_OF_TEXT, 0);
    thread->weight_ns = 6 * PERIOD_NS;
    profile_add(&collector.profile, &frame, 1, 16 * thread->weight_ns, &thread->last_node);
    return thread;
}

static void chosen_ends(struct thread *thread, uint64_t used_ns)
{
    post((struct birth){.tid = thread->tid, .ended = true, .cpu_ns = 1000 + used_ns});
    thread->dead = true;
    housekeeping_do(&house, &mailbox);
}

/* Of a long life the first ms is weighed as that of sixteen, the rest as its own. */
TEST(a_long_life_does_not_stand_for_short_ones)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    chosen_ends(chosen_thread(), PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 16 * PERIOD_NS);
    chosen_ends(chosen_thread(), 5 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, (16 + 16 + 4) * PERIOD_NS);
    end_all();
}

/* But for long ones that had no event. */
TEST(a_long_life_stands_for_as_much_of_others_as_there_was)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    post((struct birth){.tid = 0x7ffffff,
                        .event.fd = -1,
                        .one_in = 16,
                        .nominal_ns = PERIOD_NS / 8,
                        .passed_over = true});
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 3 * PERIOD_NS});
    housekeeping_do(&house, &mailbox);
    CHECK_U64(collector.unplaced_ns, 2 * PERIOD_NS);
    chosen_ends(chosen_thread(), 5 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, (16 + 4 + 2) * PERIOD_NS);
    CHECK_U64(collector.unplaced_ns, 0);
    end_all();
}

/* A ring in memory; nothing comes into it. The first point is at half a period. */
static struct thread *unsampled_thread(void)
{
    void *mapping = mmap(NULL, 2 * EVENT_PAGE_BYTES, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(mapping != MAP_FAILED);
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    post((struct birth){
        .tid = 0x7fffffd,
        .event = {.fd = -1, .mapping = mapping, .mapping_bytes = 2 * EVENT_PAGE_BYTES},
        .cpu_ns = 1000,
        .period_ns = PERIOD_NS / 2,
        .name = "kernelish"});
    struct thread *thread = threads_find(&collector.threads, 0x7fffffd);
    REQUIRE(thread != NULL);
    return thread;
}

/* Where its samples are refused, a birth's points without a record were in the kernel: below the
 * first there is none, then it weighs a period, and a longer life all that it has used. */
TEST(a_life_without_a_sample_is_the_kernels)
{
    static const struct {
        bool unseen, full;
        uint64_t used_ns, booked_ns;
    } cases[] = {{true, false, PERIOD_NS / 2 - 1, 0},
                 {true, false, PERIOD_NS * 3 / 4, PERIOD_NS},
                 {true, false, 7 * PERIOD_NS, 7 * PERIOD_NS},
                 {true, true, 7 * PERIOD_NS, 0},
                 {false, false, 7 * PERIOD_NS, 0}};
    for (unsigned i = 0; i < sizeof cases / sizeof *cases; i++) {
        prepare();
        collector.kernel.is_unseen = cases[i].unseen;
        struct thread *thread = unsampled_thread();
        thread->ring_was_full = cases[i].full;
        chosen_ends(thread, cases[i].used_ns);
        CHECK_U64(weight_of("kernelish"), cases[i].booked_ns);
        end_all();
    }
}

/* A life of a hundred periods whose ring was full after three samples, and three points without
 * one. That there was a last sample is not by chance: three of five were the kernel's. */
TEST(what_no_point_stands_for_is_shared_with_the_kernel)
{
    prepare();
    collector.kernel.is_unseen = true;
    struct thread *thread = unsampled_thread();
    thread->period_ns = PERIOD_NS;
    kernel_time_to_end(&collector.kernel, thread, 3 * PERIOD_NS);
    uint32_t frame = profile_frame(&collector.profile, FRAME_OF_TEXT, 0);
    profile_add(&collector.profile, &frame, 1, 0, &thread->seen_node);
    thread->last_node = thread->seen_node;
    thread->samples_since_draw = 3;
    thread->count_ns = 4 * PERIOD_NS;
    thread->ring_was_full = true;
    uint64_t left_ns = 100 * PERIOD_NS - thread->weight_ns;
    chosen_ends(thread, 100 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 100 * PERIOD_NS);
    uint64_t seen_ns = profile_node_at(&collector.profile, thread->seen_node)->weight_ns;
    CHECK(seen_ns + 5 >= left_ns * 2 / 5 && seen_ns <= left_ns * 2 / 5 + 5);
    end_all();
}

/* What it has used when it gets an event of the helper's is known by its clock, and there need not
 * be a sample for that. */
TEST(a_thread_that_is_in_the_kernel_all_the_time_is_settled)
{
    for (int unseen = 0; unseen < 2; unseen++) {
        struct worker worker;
        struct event event;
        prepare();
        collector.kernel.is_unseen = unseen != 0;
        const struct event_shape shape = {
            .period_ns = PERIOD_NS, .stack_bytes = 1024, .ring_bytes = 16384, .disabled = true};
        worker_start(&worker);
        REQUIRE(event_open(&event, &traits, &shape, worker.tid) == 0);
        post((struct birth){
            .tid = worker.tid, .event = event, .period_ns = PERIOD_NS, .name = "worker"});
        struct thread *thread = threads_find(&collector.threads, worker.tid);
        REQUIRE(thread != NULL);
        worker_go(&worker);
        worker_wait(&worker);
        usleep(5000);
        turn();
        CHECK(thread->settled == (unseen != 0));
        CHECK((weight_of("worker") > 40 * PERIOD_NS) == (unseen != 0));
        worker_end(&worker);
        end_all();
    }
}

/* A settled worker's new event counts 50 ms before it takes the other's place: what of that its
 * books begin with, of the whole periods in *WHOLE_NS. */
static uint64_t deaf_when_replaced(bool unseen, uint64_t *whole_ns)
{
    struct worker worker;
    prepare();
    collector.kernel.is_unseen = unseen;
    struct thread *thread = worker_settled(&worker);
    const struct event_shape shape = {
        .period_ns = 300000, .stack_bytes = 1024, .ring_bytes = 65536};
    struct event event;
    uint64_t since_ns = clock_ns(CLOCK_MONOTONIC), count_ns;
    REQUIRE(event_open(&event, &traits, &shape, worker.tid) == 0);
    worker_go(&worker);
    worker_wait(&worker);
    worker_rest(&worker);
    REQUIRE(event_read_count(&event, &count_ns) == 0);
    *whole_ns = count_ns / shape.period_ns * shape.period_ns;
    housekeeping_replace(&house, thread, &event, &shape, since_ns);
    uint64_t deaf_ns = thread->count_ns;
    worker_end(&worker);
    end_all();
    return deaf_ns;
}

/* Points before an event has its ring make no records, and need not have been in the kernel. (Where
 * its samples are made the next one speaks for them.) */
TEST(what_passes_before_a_settled_event_has_its_ring_is_the_old_ones)
{
    uint64_t whole_ns;
    CHECK_U64(deaf_when_replaced(false, &whole_ns), 0);
    uint64_t deaf_ns = deaf_when_replaced(true, &whole_ns);
    CHECK(whole_ns >= 20000000);
    CHECK_U64(deaf_ns, whole_ns);
}

/* Found by a scan, settled, and never sampled after: the event has fired, or it has not. What the
 * host takes is in its count, and 10 ms of that may be. */
TEST(a_settled_life_without_a_sample_is_the_kernels)
{
    prepare();
    collector.kernel.is_unseen = true;
    struct worker worker;
    struct thread *thread = worker_settled(&worker);
    uint64_t before_ns = weight_of("worker");
    struct event event = thread->event;
    const struct event_shape unsampled = {.period_ns = PERIOD_NS << 20, .stack_bytes = 1024};
    REQUIRE(event_open(&thread->event, &traits, &unsampled, worker.tid) == 0);
    event_close(&event);
    thread->ring = ring_over(thread->event.mapping, thread->event.mapping_bytes);
    thread->count_ns = 0;
    thread->last_node = PROFILE_NONE;
    thread->owed_ns = 3 * PERIOD_NS;
    worker_go(&worker);
    worker_wait(&worker);
    thread->dead = true;
    housekeeping_do(&house, &mailbox);
    uint64_t booked_ns = weight_of("worker") - before_ns;
    CHECK(booked_ns >= 52 * PERIOD_NS && booked_ns <= 66 * PERIOD_NS);
    worker_end(&worker);
    end_all();
}
