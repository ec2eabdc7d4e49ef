/* A clock that outlives its thread. Runs in the helper. */
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

uint64_t first_clock_process_ns(const struct first_clock *clock)
{
    uint64_t count_ns;
    bool tells = clock->tid != 0 && event_read_count_of(clock->fd, &count_ns) == 0;
    return tells ? clock->before_ns + count_ns : 0;
}

uint64_t first_clock_ns(const struct first_clock *clock, pid_t tid)
{
    uint64_t process_ns = clock->tid == tid ? first_clock_process_ns(clock) : 0;
    return process_ns > clock->ahead_ns ? process_ns - clock->ahead_ns : 0;
}

void first_clock_close(struct first_clock *clock)
{
    if (clock->tid != 0)
        sys_close(clock->fd);
    clock->tid = 0;
}
