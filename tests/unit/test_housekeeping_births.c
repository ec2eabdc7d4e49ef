/* housekeeping: threads whose births stand for others, and the ends of many. */
#include "housekeeping_fixture.h"

/* Its first ms is for others to stand for, the rest its own: it has used 50. */
TEST(a_thread_that_was_passed_over_is_settled_like_others)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    post((struct birth){.tid = worker.tid, .event.fd = -1, .one_in = 8, .passed_over = true});
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
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

TEST(a_thread_that_was_passed_over_and_ends_is_not_uncovered)
{
    prepare();
    post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 8, .passed_over = true});
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
        post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 8, .passed_over = true});
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
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0); /* not yet */
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    housekeeping_close_accounts(&house, 10 * PERIOD_NS);
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
    post((struct birth){.tid = worker.tid, .event.fd = -1, .one_in = 8, .passed_over = true});
    worker_go(&worker);
    worker_wait(&worker);
    uint64_t shown_ns = collector.profile.weight_ns;
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, shown_ns + 40 * PERIOD_NS);
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
    housekeeping_close_accounts(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0);
    end_all();
}

/* One of 16 like it, with samples of 6 ms. */
static struct thread *chosen_thread(void)
{
    post((struct birth){.tid = 0x7fffffe, .event.fd = -1, .one_in = 16, .cpu_ns = 1000});
    struct thread *thread = threads_find(&collector.threads, 0x7fffffe);
    REQUIRE(thread != NULL);
    CHECK_U64(thread->birth_nominal_ns, PERIOD_NS / 8);
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
    post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 16, .passed_over = true});
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 3 * PERIOD_NS});
    housekeeping_do(&house, &mailbox);
    CHECK_U64(collector.unplaced_ns, 2 * PERIOD_NS);
    chosen_ends(chosen_thread(), 5 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, (16 + 4 + 2) * PERIOD_NS);
    CHECK_U64(collector.unplaced_ns, 0);
    end_all();
}
