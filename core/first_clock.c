/* A clock that outlives its thread. Runs in the helper; first_clock_note_exit in the app's threads.
 */
#include "first_clock.h"

#include "descriptors.h"
#include "event.h"
#include "sys.h"

void first_clock_open(struct first_clock *clock, pid_t tid)
{
    int fd = -1;
    if (!descriptor_is_for_files(FIRST_CLOCK_FD))
        fd = descriptor_move(event_open_clock(tid), FIRST_CLOCK_FD);
    clock->tid = fd >= 0 ? tid : 0;
    clock->fd = fd;
}

void first_clock_set(struct first_clock *clock, uint64_t used_ns)
{
    uint64_t count_ns;
    if (clock->tid == 0)
        return;
    if (used_ns != 0 && event_read_count_of(clock->fd, &count_ns) == 0)
        clock->before_ns = used_ns > count_ns ? used_ns - count_ns : 0;
    else
        first_clock_close(clock);
}

void first_clock_note_exit(struct first_clock *clock)
{
    clock->left_tid = (pid_t)sys0(SYS_gettid);
    clock->left_tid_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    __atomic_store_n(&clock->left_ns, sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID), __ATOMIC_RELEASE);
}

/* By the task clock; 0 where there is none. */
static uint64_t counted_process_ns(const struct first_clock *clock)
{
    uint64_t count_ns;
    bool tells = clock->tid != 0 && event_read_count_of(clock->fd, &count_ns) == 0;
    return tells ? clock->before_ns + count_ns : 0;
}

uint64_t first_clock_process_ns(const struct first_clock *clock)
{
    uint64_t process_ns = counted_process_ns(clock);
    return process_ns != 0 ? process_ns : __atomic_load_n(&clock->left_ns, __ATOMIC_ACQUIRE);
}

uint64_t first_clock_ns(const struct first_clock *clock, pid_t tid)
{
    uint64_t process_ns = clock->tid == tid ? counted_process_ns(clock) : 0;
    if (process_ns > clock->ahead_ns)
        return process_ns - clock->ahead_ns;
    bool has_left = __atomic_load_n(&clock->left_ns, __ATOMIC_ACQUIRE) != 0;
    return has_left && clock->left_tid == tid ? clock->left_tid_ns : 0;
}

void first_clock_close(struct first_clock *clock)
{
    if (clock->tid != 0)
        sys_close(clock->fd);
    clock->tid = 0;
}
