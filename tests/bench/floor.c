/*
 * What the kernel alone costs: runs a program under an inherited task-clock event that takes
 * nothing but the instruction pointer and that nobody reads. No sampling profiler can be cheaper.
 *
 *     floor RATE_HZ program arguments
 */
#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    struct perf_event_attr attr = {
        .size = sizeof attr,
        .type = PERF_TYPE_SOFTWARE,
        .config = PERF_COUNT_SW_TASK_CLOCK,
        .sample_type = PERF_SAMPLE_IP,
        .disabled = 1,
        .inherit = 1,
        .enable_on_exec = 1,
    };
    if (argc < 3)
        return 2;
    attr.sample_period = (unsigned long long)(1e9 / atof(argv[1]));
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd < 0 && errno == EACCES) {
        attr.exclude_kernel = 1;
        fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    }
    if (fd < 0) {
        fprintf(stderr, "floor: perf_event_open: %s\n", strerror(errno));
        return 125;
    }
    execvp(argv[2], argv + 2);
    fprintf(stderr, "floor: %s: %s\n", argv[2], strerror(errno));
    return 127;
}
