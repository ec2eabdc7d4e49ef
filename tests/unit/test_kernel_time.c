/* kernel_time: what of a thread's time is the kernel's, where that makes no samples. */
#include "kernel_time.h"

#include "check.h"
#include "collector_fixture.h"

static struct thread *first_event_of_thread(void)
{
    traits = (struct event_traits){.kernel_frames = false};
    collector_prepare();
    struct thread *thread = threads_admit_scanned(&collector.threads, 0x7ffffff, 0);
    REQUIRE(thread != NULL);
    thread->event.mapping = thread; /* only whether there is one is asked */
    thread->period_ns = PERIOD_NS;
    return thread;
}

TEST(a_part_is_the_kernels_as_of_the_points)
{
    struct thread *thread = first_event_of_thread();
    kernel_time_to_end(&collector.kernel, thread, 3 * PERIOD_NS + 1);
    CHECK_U64(thread->missed, 3);
    CHECK(thread->kernel_node != PROFILE_NONE && thread->last_node == thread->kernel_node);
    CHECK_U64(kernel_time_part_ns(thread, 1000), 0); /* all of it goes to the last */
    thread->samples_since_draw = 1;
    CHECK_U64(kernel_time_part_ns(thread, 1000), 0);
    thread->seen_node = thread->kernel_node;
    CHECK_U64(kernel_time_part_ns(thread, 1000), 750);
    thread->samples_since_draw = 6;
    CHECK_U64(kernel_time_part_ns(thread, 900), 300);
    thread->ring_was_full = true; /* the last of them was sure to be one */
    CHECK_U64(kernel_time_part_ns(thread, 800), 300);
}

/* Of three points, of which nothing is left, two made records that were lost. */
TEST(what_lost_records_would_weigh_is_not_the_kernels)
{
    struct thread *thread = first_event_of_thread();
    uint32_t frame = profile_frame(&collector.profile, FRAME_OF_TEXT, 0);
    profile_add(&collector.profile, &frame, 1, 0, &thread->seen_node);
    thread->birth_nominal_ns = PERIOD_NS;
    thread->count_ns = 20 * PERIOD_NS;
    thread->lost_since_sample = 2;
    kernel_time_to_end(&collector.kernel, thread, 23 * PERIOD_NS + 1);
    CHECK_U64(thread->missed, 1);
    CHECK_U64(collector.kernel.ns, PERIOD_NS);
    CHECK_U64(profile_node_at(&collector.profile, thread->seen_node)->weight_ns, 2 * PERIOD_NS);
    CHECK_U64(thread->weight_ns, 3 * PERIOD_NS);
    thread->ring_was_full = true; /* and nobody knows of how many */
    kernel_time_to_end(&collector.kernel, thread, 30 * PERIOD_NS);
    CHECK_U64(thread->weight_ns, 3 * PERIOD_NS);
}

/* Of a settled one, by periods: with the last of them it is not known whether one has ended. */
TEST(whole_periods_of_a_settled_thread_are_the_kernels)
{
    struct thread *thread = first_event_of_thread();
    thread->settled = true;
    CHECK_U64(kernel_time_take(&collector.kernel, thread, PERIOD_NS * 5 / 4), PERIOD_NS * 5 / 4);
    CHECK_U64(kernel_time_take(&collector.kernel, thread, PERIOD_NS * 4), PERIOD_NS);
    CHECK_U64(collector.kernel.ns, 3 * PERIOD_NS);
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, PERIOD_NS - 1), PERIOD_NS - 1);
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, PERIOD_NS * 2 + 1), 1);
    CHECK_U64(collector.kernel.ns, 5 * PERIOD_NS);
    thread->period_is_new = true;
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, PERIOD_NS * 3), PERIOD_NS * 2);
    thread->lost_since_sample = 4;
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, PERIOD_NS * 6), PERIOD_NS * 6);
    thread->ring_was_full = true;
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, PERIOD_NS * 9), PERIOD_NS * 9);
    CHECK_U64(collector.kernel.ns, 6 * PERIOD_NS);
}

TEST(where_kernel_samples_are_made_nothing_is_booked)
{
    struct thread *thread = first_event_of_thread();
    collector.kernel.is_unseen = false;
    kernel_time_to_end(&collector.kernel, thread, 9 * PERIOD_NS);
    thread->settled = true;
    CHECK_U64(kernel_time_take(&collector.kernel, thread, 9 * PERIOD_NS), 9 * PERIOD_NS);
    CHECK_U64(kernel_time_take_last(&collector.kernel, thread, 9 * PERIOD_NS), 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0);
    CHECK(!kernel_time_is_unseen(&(struct event_traits){.kernel_frames = true}));
    CHECK(!kernel_time_is_unseen(&(struct event_traits){.by_timer = true}));
    CHECK(kernel_time_is_unseen(&(struct event_traits){.by_timer = false}));
}
