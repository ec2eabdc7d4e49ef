/*
 * Prints the median of how late the interrupts of a clock event come, in us. Fails where events are
 * refused.
 */
#include "burn.h"

#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { PERIOD_NS = 250000, EVENTS = 101 };

/* What the calling thread's new event counts at its first sample, beyond its period; -1: refused.
 */
static long late_ns(void)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = PERIOD_NS,
        .sample_type = PERF_SAMPLE_READ,
        .exclude_kernel = 1,
        .disabled = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    size_t bytes = 2 * (size_t)sysconf(_SC_PAGESIZE);
    char *ring = fd < 0 ? MAP_FAILED : mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED)
        return -1;
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    burn_us(2 * PERIOD_NS / 1000);
    const struct perf_event_mmap_page *page = (const void *)ring;
    const uint64_t *record = (const void *)(ring + bytes / 2); /* a header, and the count */
    long late = page->data_head == 0 ? 0 : (long)record[1] % PERIOD_NS;
    munmap(ring, bytes);
    close(fd);
    return late;
}

static int compare(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;
    return (x > y) - (x < y);
}

int main(void)
{
    long late[EVENTS];
    for (int i = 0; i < EVENTS; i++)
        if ((late[i] = late_ns()) < 0)
            return 1;
    qsort(late, EVENTS, sizeof *late, compare);
    printf("%ld\n", late[EVENTS / 2] / 1000);
    return 0;
}
