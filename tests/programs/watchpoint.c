/*
 * Says whether a debug register counts this program's writes to a word, which some hypervisors do
 * not pass on: "counts", or "counts not".
 */
#include "burn.h"

#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <sys/syscall.h>

int main(void)
{
    volatile uint64_t word = 0;
    uint64_t writes = 0;
    struct perf_event_attr attr = {
        .type = PERF_TYPE_BREAKPOINT,
        .size = sizeof attr,
        .bp_type = HW_BREAKPOINT_W,
        .bp_addr = (uint64_t)(uintptr_t)&word,
        .bp_len = HW_BREAKPOINT_LEN_8,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    word = 1;
    int counts = fd >= 0 && read(fd, &writes, sizeof writes) == sizeof writes && writes == 1;
    puts(counts ? "counts" : "counts not");
    return 0;
}
