/*
 * A library to preload: notes the process's CPU clock when it is loaded and when its destructor
 * runs, as a line `pid start_ns end_ns user_us system_us program` in the file $E2E_CLOCK.
 */
#define _GNU_SOURCE 1
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static long start_ns;
static pid_t start_pid;

static long process_cpu_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

__attribute__((constructor)) static void note_start(void)
{
    start_ns = process_cpu_ns();
    start_pid = getpid();
}

__attribute__((destructor)) static void note_end(void)
{
    const char *path = getenv("E2E_CLOCK");
    struct rusage usage;
    char line[256];
    int fd, length;

    if (!path)
        return;
    getrusage(RUSAGE_SELF, &usage);
    length = snprintf(line, sizeof(line), "%d %ld %ld %ld %ld %s\n", (int)getpid(),
                      getpid() == start_pid ? start_ns : 0, process_cpu_ns(),
                      usage.ru_utime.tv_sec * 1000000L + usage.ru_utime.tv_usec,
                      usage.ru_stime.tv_sec * 1000000L + usage.ru_stime.tv_usec,
                      program_invocation_short_name);
    fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
    if (fd < 0)
        return;
    if (write(fd, line, (size_t)length) < 0)
        abort();
    close(fd);
}
