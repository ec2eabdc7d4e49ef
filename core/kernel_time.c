/* Books time in the kernel that makes no samples. Runs in the helper. */
#include "kernel_time.h"

#include "sampling.h"

/* It is now the place that the thread's last point went to. */
static void book(struct kernel_time *kernel, struct thread *thread, uint64_t kernel_ns)
{
    thread->last_node =
        stack_frames_book(kernel->stacks, thread, "[kernel]", kernel_ns + thread->owed_ns);
    thread->owed_ns = 0;
    kernel->ns += kernel_ns;
}

/* Of a settled thread, PERIODS that passed without a record; what is left of WEIGHT_NS. Records
 * that were lost were none of the kernel's. Where its period was set anew in between, one that was
 * somewhat longer may have been cut short. */
static uint64_t book_periods(struct kernel_time *kernel, struct thread *thread, uint64_t periods,
                             uint64_t weight_ns)
{
    uint64_t unsure = thread->lost_since_sample + (thread->period_is_new ? 2 : 0);
    if (periods <= unsure)
        return weight_ns;
    uint64_t kernel_ns = (periods - unsure) * thread->period_ns;
    book(kernel, thread, kernel_ns);
    return weight_ns > kernel_ns ? weight_ns - kernel_ns : 1;
}

uint64_t kernel_time_take(struct kernel_time *kernel, struct thread *thread, uint64_t weight_ns)
{
    if (!kernel->is_unseen || !thread->settled)
        return weight_ns;
    uint64_t periods = (weight_ns + thread->period_ns / 4) / thread->period_ns;
    /* One ended with the sample. */
    return book_periods(kernel, thread, periods > 0 ? periods - 1 : 0, weight_ns);
}

uint64_t kernel_time_take_last(struct kernel_time *kernel, struct thread *thread,
                               uint64_t weight_ns)
{
    if (!kernel->is_unseen || !thread->settled || thread->ring_was_full)
        return weight_ns;
    return book_periods(kernel, thread, weight_ns / thread->period_ns, weight_ns);
}

/* One that was paused is not accounted; a timer has no points without a record, since its signal
 * comes whatever it interrupts. */
static bool has_points(const struct kernel_time *kernel, const struct thread *thread)
{
    return kernel->is_unseen && thread->event.mapping != NULL && !thread->by_timer &&
           !thread->unbalanced;
}

/* What POINTS in a row weigh together, the last of them not after UNTIL_NS. */
static uint64_t points_weight_ns(const struct kernel_time *kernel, const struct thread *thread,
                                 uint64_t points, uint64_t after_ns, uint64_t until_ns)
{
    if (thread->plain)
        return points * thread->period_ns;
    struct sampling_birth birth = thread_birth(thread);
    return sampling_birth_missed_ns(&birth, after_ns, until_ns, kernel->lateness->ns);
}

/* The points up to UNTIL_NS that made no record, but for those whose records were lost. Those that
 * weigh nothing still tell where the thread was last. */
static struct kernel_time_gap book_points(struct kernel_time *kernel, struct thread *thread,
                                          uint64_t after_ns, uint64_t until_ns)
{
    struct kernel_time_gap gap = {0};
    if (!has_points(kernel, thread) || until_ns < after_ns + thread->period_ns)
        return gap;
    uint64_t points = (until_ns - after_ns) / thread->period_ns, lost = thread->lost_since_sample;
    uint64_t weight_ns = points_weight_ns(kernel, thread, points, after_ns, until_ns);
    if (lost > points)
        lost = points;
    gap.lost_ns = (uint64_t)((double)weight_ns * (double)lost / (double)points);
    gap.kernel_ns = (points - lost) * thread->period_ns;
    if (lost == points)
        return gap;
    weight_ns -= gap.lost_ns;
    thread->weight_ns += weight_ns;
    thread->missed += (uint32_t)(points - lost);
    book(kernel, thread, sampling_share_ns(kernel->share, thread->one_in, weight_ns));
    thread->kernel_node = thread->last_node;
    return gap;
}

struct kernel_time_gap kernel_time_before_sample(struct kernel_time *kernel, struct thread *thread,
                                                 uint64_t before_ns, uint64_t sample_ns)
{
    uint64_t own_ns = sampling_birth_point_ns(thread->period_ns, before_ns, kernel->lateness->ns);
    if (sample_ns <= own_ns)
        return (struct kernel_time_gap){0};
    return book_points(kernel, thread, before_ns, sample_ns - own_ns);
}

void kernel_time_to_end(struct kernel_time *kernel, struct thread *thread, uint64_t end_ns)
{
    if (thread->settled || thread->ring_was_full)
        return;
    /* A last point may be too late to make a record, wherever the thread is; so is the one before
     * it that the time of the last record stands for. */
    uint64_t used_ns = thread_used_ns(thread), late_ns = used_ns == 0 ? kernel->lateness->ns : 0;
    struct kernel_time_gap gap =
        book_points(kernel, thread, used_ns, end_ns > late_ns ? end_ns - late_ns : 0);
    if (gap.lost_ns == 0 || thread->seen_node == PROFILE_NONE)
        return;
    thread->weight_ns += gap.lost_ns;
    profile_top_up(kernel->stacks->profile, thread->seen_node,
                   sampling_share_ns(kernel->share, thread->one_in, gap.lost_ns));
}

uint64_t kernel_time_part_ns(const struct thread *thread, uint64_t ns)
{
    /* Where the ring was full it was a record that ended what is known: one too many. */
    uint64_t seen = thread->samples_since_draw;
    if (seen > 1 && thread->ring_was_full)
        seen--;
    if (seen == 0 || thread->seen_node == PROFILE_NONE || thread->kernel_node == PROFILE_NONE)
        return 0;
    return (uint64_t)((double)ns * thread->missed / (double)(thread->missed + seen));
}
