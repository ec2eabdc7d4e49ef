/*
 * What samples cost a program that is at work in its caches: one process compresses blocks on two
 * threads, in turns without any samples, under the kernel's floor and under the library, which is
 * paused otherwise. So all three meet the same machine, however busy it is.
 *
 *     LD_PRELOAD=libselfsample.so SELFSAMPLE_RATE=RATE_HZ turns RATE_HZ SECONDS
 *
 * Prints the median CPU time of a block, us, and how many there were: bare, floor, selfsample. The
 * floor is an event that takes nothing but the instruction pointer and that nobody reads.
 */
#include <linux/perf_event.h>
#include <lzma.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "selfsample.h"

#define THREADS     2
#define BLOCK_BYTES (96u * 1024)
#define BLOCKS_MAX  100000u
#define TURN_S      1
#define SETTLE_US   50000 /* until the helper has paused or resumed all threads */

enum side { BARE, FLOOR, SELFSAMPLE, SIDES, NO_SIDE = SIDES };

static const char *const side_names[SIDES] = {"bare", "floor", "selfsample"};

static double block_us[SIDES][BLOCKS_MAX];
static unsigned blocks[SIDES];
static unsigned side = NO_SIDE;
static bool is_over;
static uint64_t period_ns;

static double thread_cpu_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int floor_open(void)
{
    struct perf_event_attr attr = {.size = sizeof attr,
                                   .type = PERF_TYPE_SOFTWARE,
                                   .config = PERF_COUNT_SW_TASK_CLOCK,
                                   .sample_type = PERF_SAMPLE_IP,
                                   .sample_period = period_ns,
                                   .disabled = 1};
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd >= 0)
        return fd;
    attr.exclude_kernel = 1;
    return (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
}

static double compress(const uint8_t *block)
{
    static _Thread_local uint8_t packed[2 * BLOCK_BYTES];
    size_t used = 0;
    double start_us = thread_cpu_us();
    if (lzma_easy_buffer_encode(3, LZMA_CHECK_CRC64, NULL, block, BLOCK_BYTES, packed, &used,
                                sizeof packed) != LZMA_OK)
        abort();
    return thread_cpu_us() - start_us;
}

/* Blocks of a turn, unless it ended meanwhile. */
static void *compressor(void *block)
{
    int floor_fd = floor_open();
    while (!__atomic_load_n(&is_over, __ATOMIC_RELAXED)) {
        unsigned mine = __atomic_load_n(&side, __ATOMIC_RELAXED);
        if (floor_fd >= 0)
            ioctl(floor_fd, mine == FLOOR ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
        double us = compress(block);
        if (mine == NO_SIDE || __atomic_load_n(&side, __ATOMIC_RELAXED) != mine)
            continue;
        unsigned index = __atomic_fetch_add(&blocks[mine], 1, __ATOMIC_RELAXED);
        if (index < BLOCKS_MAX)
            block_us[mine][index] = us;
    }
    close(floor_fd);
    return NULL;
}

static void turn(enum side whose)
{
    struct timespec length = {TURN_S, 0};
    if (whose == SELFSAMPLE)
        selfsample_resume();
    else
        selfsample_pause();
    usleep(SETTLE_US);
    __atomic_store_n(&side, whose, __ATOMIC_RELAXED);
    nanosleep(&length, NULL);
    __atomic_store_n(&side, NO_SIDE, __ATOMIC_RELAXED);
}

static int by_value(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

static void say(enum side whose)
{
    unsigned count = blocks[whose] < BLOCKS_MAX ? blocks[whose] : BLOCKS_MAX;
    qsort(block_us[whose], count, sizeof(double), by_value);
    printf("%s %.1f %u\n", side_names[whose], count != 0 ? block_us[whose][count / 2] : 0, count);
}

int main(int argc, char **argv)
{
    static uint8_t text[THREADS * BLOCK_BYTES + 16];
    pthread_t threads[THREADS];
    if (argc != 3 || atof(argv[1]) <= 0)
        return 2;
    period_ns = (uint64_t)(1e9 / atof(argv[1]));
    unsigned number = 1;
    for (size_t used = 0; used < sizeof text - 16; number++)
        used += (size_t)sprintf((char *)text + used, "%u\n", number * 7919 % 1000003);
    for (unsigned i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, compressor, text + i * BLOCK_BYTES) != 0)
            return 1;
    for (unsigned i = 0; i * TURN_S < (unsigned)atoi(argv[2]); i++)
        turn(i % SIDES);
    __atomic_store_n(&is_over, true, __ATOMIC_RELAXED);
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (unsigned i = 0; i < SIDES; i++)
        say(i);
    return 0;
}
