/*
 * Opens and maps sampling events. Runs in the app's threads at their birth and in the helper; never
 * allocates, never touches errno.
 */
#include "event.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <poll.h>
#include <sys/mman.h>

#include "number_file.h"
#include "record.h"
#include "sys.h"

#define IOC_ENABLE _IO('$', 0)
#define IOC_ID     _IOR('$', 7, uint64_t *)
#define IOC_PERIOD _IOW('$', 4, uint64_t)

/* Nobody waits for a ring to fill: each time the kernel would wake him costs another interrupt. It
 * takes no more than the ring's size. */
static struct perf_event_attr attributes(const struct event_traits *traits,
                                         const struct event_shape *shape)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .disabled = shape->disabled,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_period = shape->period_ns,
        .sample_type = RECORD_SAMPLE_TYPE | (traits->kernel_frames ? PERF_SAMPLE_CALLCHAIN : 0),
        .sample_regs_user = RECORD_USER_REGISTERS,
        .sample_stack_user = shape->stack_bytes,
        .exclude_kernel = !traits->kernel_frames,
        .exclude_hv = 1,
        .exclude_callchain_user = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
        .mmap = 1,
        .mmap2 = 1,
        .comm = 1,
        .comm_exec = 1,
        .task = 1,
        .sample_id_all = 1,
        .use_clockid = 1,
        .clockid = CLOCK_MONOTONIC,
    };
    return attr;
}

static int attributes_open(struct perf_event_attr *attr, pid_t tid)
{
    return (int)sys5(SYS_perf_event_open, attr, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

int event_probe(struct event_traits *traits, bool want_kernel)
{
    /* A period that never ends within the probe. */
    const struct event_shape shape = {.period_ns = 3600ull * 1000000000u, .stack_bytes = 1024};
    *traits = (struct event_traits){.kernel_frames = want_kernel};
    struct perf_event_attr attr = attributes(traits, &shape);
    int fd = attributes_open(&attr, 0);
    if (fd < 0 && want_kernel) {
        *traits = (struct event_traits){.kernel_refusal = -fd};
        attr = attributes(traits, &shape);
        fd = attributes_open(&attr, 0);
    }
    if (fd < 0)
        return fd;
    sys_close(fd);
    return 0;
}

uint64_t event_id(int fd)
{
    uint64_t id = 0;
    return sys3(SYS_ioctl, fd, IOC_ID, &id) == 0 ? id : 0;
}

void event_close_shared_fd(int fd, uint64_t id)
{
    if (id != 0 && event_id(fd) == id)
        sys_close(fd);
}

size_t event_mapping_bytes(size_t ring_bytes)
{
    size_t page_bytes = sys_page_bytes();
    return page_bytes + (ring_bytes > page_bytes ? ring_bytes : page_bytes);
}

int event_open(struct event *event, const struct event_traits *traits,
               const struct event_shape *shape, pid_t tid)
{
    int result = event_open_unmapped(event, traits, shape, tid);
    return result == 0 ? event_map(event, shape) : result;
}

int event_open_unmapped(struct event *event, const struct event_traits *traits,
                        const struct event_shape *shape, pid_t tid)
{
    *event = (struct event){.fd = -1};
    struct perf_event_attr attr = attributes(traits, shape);
    int fd = attributes_open(&attr, tid);
    if (fd == -EACCES && traits->kernel_frames) {
        attr.exclude_kernel = attr.exclude_callchain_kernel = 1;
        fd = attributes_open(&attr, tid);
    }
    if (fd < 0)
        return fd;
    event->fd = fd;
    event->id = event_id(fd);
    return 0;
}

int event_map(struct event *event, const struct event_shape *shape)
{
    size_t bytes = event_mapping_bytes(shape->ring_bytes);
    void *mapping = sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, event->fd, 0);
    int result = sys_is_error(mapping) ? (int)(intptr_t)mapping : 0;
    if (result == 0 && event_id(event->fd) != event->id) { /* it is another file's by now */
        sys_munmap(mapping, bytes);
        result = -EBADF;
    }
    if (result != 0) {
        event_close_shared_fd(event->fd, event->id);
        *event = (struct event){.fd = -1};
        return result;
    }
    event->mapping = mapping;
    event->mapping_bytes = bytes;
    return 0;
}

int event_enable(const struct event *event)
{
    return (int)sys3(SYS_ioctl, event->fd, IOC_ENABLE, 0);
}

void event_close(struct event *event)
{
    if (event->mapping != NULL)
        sys_munmap(event->mapping, event->mapping_bytes);
    if (event->fd >= 0)
        sys_close(event->fd);
    *event = (struct event){.fd = -1};
}

int event_set_period(const struct event *event, uint64_t period_ns)
{
    return (int)sys3(SYS_ioctl, event->fd, IOC_PERIOD, &period_ns);
}

int event_read_count_of(int fd, uint64_t *count)
{
    long got = sys_read(fd, count, sizeof *count);
    if (got < 0)
        return (int)got;
    return got == (long)sizeof *count ? 0 : -EIO;
}

int event_read_count(const struct event *event, uint64_t *count_ns)
{
    return event_read_count_of(event->fd, count_ns);
}

bool event_has_ended(const struct event *event)
{
    struct pollfd state = {.fd = event->fd};
    struct timespec at_once = {0, 0};
    return sys5(SYS_ppoll, &state, 1, &at_once, NULL, 0) == 1 && (state.revents & POLLHUP) != 0;
}

int event_open_watch(pid_t tid, uint64_t address)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_BREAKPOINT,
        .size = sizeof attr,
        .bp_type = HW_BREAKPOINT_W,
        .bp_addr = address,
        .bp_len = HW_BREAKPOINT_LEN_8,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return attributes_open(&attr, tid);
}

int event_open_clock(pid_t tid)
{
    struct perf_event_attr attr = {
        .type = PERF_TYPE_SOFTWARE,
        .size = sizeof attr,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    return attributes_open(&attr, tid);
}

size_t event_record_bytes(const struct event_shape *shape)
{
    return RECORD_SAMPLE_FIXED_BYTES + shape->stack_bytes;
}

uint64_t event_rate_limit_hz(void)
{
    return number_file_read("/proc/sys/kernel/perf_event_max_sample_rate", 0);
}
