/* What the kernel, its settings and this session's limits allow. Changes nothing. */
#include "command.h"
#include "doctor.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "config.h"
#include "deep_stack.h"
#include "engine.h"
#include "event.h"
#include "number_file.h"
#include "threads.h"

#define PARANOID        "/proc/sys/kernel/perf_event_paranoid"
#define PID_NAMESPACE_1 "pid:[4026531836]" /* that of the system's first process */

enum { RINGS_BYTES = 65536, RINGS_ENOUGH = 64 };

/* The number behind KEY in /proc/self/status; -1: not told. */
static long own_status(const char *key)
{
    char line[512];
    long value = -1;
    size_t length = strlen(key);
    FILE *file = fopen("/proc/self/status", "re");
    while (file != NULL && value < 0 && fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, key, length) == 0 && line[length] == ':')
            value = strtol(line + length + 1, NULL, 10);
    if (file != NULL)
        fclose(file);
    return value;
}

static void examine_refusal(int error, long paranoid)
{
    bool filtered = own_status("Seccomp") > 0;
    if (error == -ENOSYS)
        finding(HEALTH_LIMITED, "perf events", NULL, "this kernel has none");
    else if (paranoid > 2 && geteuid() != 0)
        finding(HEALTH_LIMITED, "perf events", "sudo sysctl kernel.perf_event_paranoid=1",
                "refused to this user: kernel.perf_event_paranoid is %ld", paranoid);
    else if (filtered)
        finding(HEALTH_LIMITED, "perf events",
                "in Docker: --cap-add PERFMON, or --security-opt seccomp=unconfined",
                "refused (%s) by a seccomp filter, as a container's", strerror(-error));
    else
        finding(HEALTH_LIMITED, "perf events", NULL, "refused: %s", strerror(-error));
}

/* What the kernel shows of itself: stacks, and names for them. */
static void examine_kernel(const struct event_traits *traits, long paranoid)
{
    unsigned long long address = 0;
    FILE *names = fopen("/proc/kallsyms", "re");
    if (names != NULL) {
        if (fscanf(names, "%llx", &address) != 1)
            address = 0;
        fclose(names);
    }
    if (!traits->kernel_frames)
        finding(HEALTH_LIMITED, "kernel frames", "sudo sysctl kernel.perf_event_paranoid=1",
                "refused to this user: kernel.perf_event_paranoid is %ld", paranoid);
    else if (address == 0)
        finding(HEALTH_LIMITED, "kernel frames", "sudo sysctl kernel.kptr_restrict=0",
                "shown, but without names: kernel.kptr_restrict is %" PRId64,
                number_file_read_signed("/proc/sys/kernel/kptr_restrict", -1));
    else
        finding(HEALTH_OK, "kernel frames", NULL, "shown, with names");
}

static void examine_events(void)
{
    struct event_traits traits;
    long paranoid = number_file_read_signed(PARANOID, -2);
    int error = event_probe(&traits, true);
    if (error != 0) {
        examine_refusal(error, paranoid);
        return;
    }
    finding(HEALTH_OK, "perf events", NULL, "granted (kernel.perf_event_paranoid is %ld)",
            paranoid);
    examine_kernel(&traits, paranoid);
    if (deep_stack_is_possible())
        finding(HEALTH_OK, "debug registers", NULL, "stacks deeper than 64 KB can be followed");
    else
        finding(HEALTH_LIMITED, "debug registers", NULL,
                "none to be had (a hypervisor, or a debugger): stacks deeper than 64 KB are cut");
}

static void examine_limits(void)
{
    unsigned rate = engine_rate_limit_hz();
    uint64_t bytes = threads_budget_bytes(geteuid() == 0);
    if (rate < CONFIG_RATE_HZ_MAX)
        finding(HEALTH_LIMITED, "sample rate",
                "sudo sysctl kernel.perf_event_max_sample_rate=20000", "%u Hz at most", rate);
    else
        finding(HEALTH_OK, "sample rate", NULL, "up to %u Hz", CONFIG_RATE_HZ_MAX);
    if (bytes / RINGS_BYTES < RINGS_ENOUGH)
        finding(HEALTH_LIMITED, "locked memory",
                "ulimit -l unlimited, or sudo sysctl kernel.perf_event_mlock_kb=8192",
                "%" PRIu64 " KB for the threads' rings: with more than %" PRIu64
                " threads stacks are cut earlier",
                bytes / 1024, bytes / RINGS_BYTES);
    else
        finding(HEALTH_OK, "locked memory", NULL, "enough for the rings of %" PRIu64 " threads",
                bytes / RINGS_BYTES);
}

static void examine_release(void)
{
    struct utsname system;
    int major = 0, minor = 0;
    if (uname(&system) != 0 || sscanf(system.release, "%d.%d", &major, &minor) != 2)
        return;
    if (major < 5 || (major == 5 && minor < 16))
        finding(HEALTH_LIMITED, "kernel", "--checkpoint 5 keeps more",
                "%s: before 5.16 a crash that dumps core leaves the last checkpoint alone",
                system.release);
    else
        finding(HEALTH_OK, "kernel", NULL, "%s: profiles outlive crashes", system.release);
}

static void examine_confinement(void)
{
    char target[64] = "";
    bool is_told = readlink("/proc/self/ns/pid", target, sizeof target - 1) > 0;
    if (own_status("Seccomp") > 0)
        finding(HEALTH_OK, "seccomp", NULL,
                "a filter is in force here; what it refuses is told in the other lines");
    if (!is_told || strcmp(target, PID_NAMESPACE_1) != 0)
        finding(HEALTH_LIMITED, "container", "docker run --init, or another program as process 1",
                "if the program is process 1%s and is killed, the last 5 s are not in its profile",
                is_told ? " here" : " of a container, which can't be told here,");
}

/* The directory that files go to. */
static void examine_directory(void)
{
    char directory[OUTPATH_BYTES];
    if (!out_directory_find(directory))
        return;
    if (directory[0] == 0)
        strcpy(directory, ".");
    if (access(directory, W_OK | X_OK) != 0)
        finding(HEALTH_NO, "output directory", "--out DIRECTORY/, or SELFSAMPLE_OUT", "%s: %s",
                directory, strerror(errno));
    else
        finding(HEALTH_OK, "output directory", NULL, "%s can be written to", directory);
}

void machine_examine(void)
{
    examine_events();
    examine_limits();
    examine_release();
    examine_confinement();
    examine_directory();
}
