/* event: sampling events on this process's own threads, read through ring and record. */
#include "event.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "record.h"
#include "ring.h"

#define PERIOD_NS  1000000u
#define RING_BYTES (256u * 1024)

static uint64_t bounce[RECORD_BYTES_MAX / 8];

static const struct event_shape shape = {
    .period_ns = PERIOD_NS, .stack_bytes = 4096, .ring_bytes = RING_BYTES, .disabled = true};

static struct event_traits traits_or_skip(bool want_kernel)
{
    char why[128];
    struct event_traits traits;
    int result = event_probe(&traits, want_kernel);
    if (result == 0)
        return traits;
    snprintf(why, sizeof why, "the kernel refuses perf_event_open: %s", strerror(-result));
    SKIP(why);
}

static uint64_t thread_cpu_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t wall_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Uses CPU time by the thread's clock. The event's own count may be larger: it has in it what the
 * host and interrupts took; or smaller: a switch between threads is in it in part alone. */
static void burn(uint64_t ns)
{
    for (uint64_t end_ns = thread_cpu_ns() + ns; thread_cpu_ns() < end_ns;)
        for (unsigned i = 0; i < 20000; i++)
            __asm__ volatile("");
}

/* Takes records until one of KIND comes. False where none is left. */
static bool find(struct ring *ring, const struct event_traits *traits, enum record_kind kind,
                 struct record *record)
{
    size_t bytes;
    for (const void *data; (data = ring_peek(ring, &bytes, bounce)) != NULL;) {
        CHECK_I64(record_decode(record, data, bytes, traits->kernel_frames), 0);
        CHECK_U64(record_time_ns(data, bytes), record->time_ns);
        ring_advance(ring, bytes);
        if (record->kind == kind)
            return true;
    }
    return false;
}

TEST(an_event_counts_from_where_it_is_enabled)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    uint64_t count_ns = 1;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0);
    CHECK_U64(event.mapping_bytes, EVENT_PAGE_BYTES + RING_BYTES);
    burn(3000000);
    CHECK_I64(event_read_count(&event, &count_ns), 0);
    CHECK_U64(count_ns, 0);
    uint64_t before_ns = wall_ns();
    REQUIRE(event_enable(&event) == 0);
    burn(10000000);
    CHECK_I64(event_read_count(&event, &count_ns), 0);
    CHECK(count_ns >= 9000000 && count_ns <= wall_ns() - before_ns);
    event_close(&event);
    CHECK(event.mapping == NULL);
    CHECK_I64(event.fd, -1);
}

TEST(samples_arrive_every_period)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    struct record record;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    uint64_t last_ns = wall_ns(), last_count_ns = 0, count = 0;
    burn(20 * PERIOD_NS);
    for (; find(&ring, &traits, RECORD_SAMPLE, &record); count++) {
        CHECK_U64(record.pid, getpid());
        CHECK_U64(record.tid, getpid());
        CHECK(record.time_ns >= last_ns);
        CHECK(record.sample.count_ns > last_count_ns);
        REQUIRE(record.sample.registers != NULL);
        CHECK_U64(record.sample.stack_copy_bytes, 4096);
        CHECK_U64(record.sample.kernel_ip_count, 0);
        uint64_t stack = record.sample.registers[ARCH_PERF_INDEX_SP];
        CHECK(stack - (uint64_t)(uintptr_t)&last_ns + 8192 < 16384);
        last_ns = record.time_ns;
        last_count_ns = record.sample.count_ns;
    }
    /* What fires in the kernel is not seen by an event that excludes it. */
    CHECK(count >= 5);
    CHECK(count * PERIOD_NS <= last_count_ns + PERIOD_NS / 10);
    event_close(&event);
}

TEST(the_ring_goes_on_without_its_descriptor)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    struct record record;
    uint64_t count_ns;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    int fd = event.fd;
    event_close_shared_fd(fd, event.id);
    event.fd = -1;
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    CHECK_I64(event_read_count(&event, &count_ns), -EBADF);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    burn(10 * PERIOD_NS);
    CHECK(find(&ring, &traits, RECORD_SAMPLE, &record));
    event_close(&event);
}

/* The kernel would wake those who wait for a half-full ring, by an interrupt of its own. */
TEST(a_ring_that_fills_wakes_nobody)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    for (unsigned i = 0; i < 1000 && ring_has_room(&ring, RING_BYTES / 3); i++)
        burn(PERIOD_NS);
    REQUIRE(!ring_has_room(&ring, RING_BYTES / 3) && ring_has_room(&ring, 1));
    struct pollfd state = {.fd = event.fd, .events = POLLIN};
    CHECK_I64(poll(&state, 1, 0), 0);
    event_close(&event);
}

TEST(a_record_takes_what_it_is_said_to_take)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    burn(10 * PERIOD_NS);
    size_t bytes;
    struct record record;
    const void *data;
    while ((data = ring_peek(&ring, &bytes, bounce)) != NULL) {
        REQUIRE(record_decode(&record, data, bytes, false) == 0);
        if (record.kind == RECORD_SAMPLE)
            CHECK_U64(bytes, event_record_bytes(&shape));
        ring_advance(&ring, bytes);
    }
    event_close(&event);
}

TEST(a_new_period_holds_from_then_on)
{
    struct event_traits traits = traits_or_skip(false);
    struct event_shape rare = shape;
    struct event event;
    struct record record;
    rare.period_ns = 3600ull * 1000000000u;
    REQUIRE(event_open(&event, &traits, &rare, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    burn(5 * PERIOD_NS);
    CHECK(!find(&ring, &traits, RECORD_SAMPLE, &record));
    REQUIRE(event_set_period(&event, PERIOD_NS) == 0);
    burn(10 * PERIOD_NS);
    CHECK(find(&ring, &traits, RECORD_SAMPLE, &record));
    event_close(&event);
}

TEST(kernel_frames_where_they_are_granted)
{
    struct event_traits traits = traits_or_skip(true);
    struct event event;
    struct record record;
    if (!traits.kernel_frames) {
        CHECK(traits.kernel_refusal == EACCES || traits.kernel_refusal == EPERM);
        SKIP("the kernel grants no kernel samples");
    }
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    for (uint64_t end_ns = thread_cpu_ns() + 30 * PERIOD_NS; thread_cpu_ns() < end_ns;) {
        void *memory = mmap(NULL, 1u << 20, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        munmap(memory, 1u << 20);
    }
    unsigned with_kernel = 0;
    while (find(&ring, &traits, RECORD_SAMPLE, &record)) {
        with_kernel += record.sample.kernel_ip_count > 0;
        for (size_t i = 0; i < record.sample.kernel_ip_count; i++)
            CHECK(record.sample.kernel_ips[i] >> 63 == 1);
    }
    CHECK(with_kernel > 0);
    event_close(&event);
}

TEST(names_and_mappings_are_told)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    struct record record;
    REQUIRE(event_open(&event, &traits, &shape, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    char old[16];
    prctl(PR_GET_NAME, old);
    prctl(PR_SET_NAME, "renamed");
    REQUIRE(find(&ring, &traits, RECORD_NAME, &record));
    CHECK_STR(record.name, "renamed");
    prctl(PR_SET_NAME, old);
    int fd = open("/proc/self/exe", O_RDONLY);
    void *code = mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
    REQUIRE(code != MAP_FAILED);
    REQUIRE(find(&ring, &traits, RECORD_MAP, &record));
    char program[512];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    REQUIRE(length > 0);
    program[length] = '\0';
    CHECK_U64(record.map.start, (uint64_t)(uintptr_t)code);
    CHECK_U64(record.map.bytes, 4096);
    CHECK_U64(record.map.file_offset, 0);
    CHECK_STR(record.map.path, program);
    munmap(code, 4096);
    close(fd);
    event_close(&event);
}

/* What another thread says of itself, and when it may end. */
struct other {
    pid_t tid;
    pthread_barrier_t ready, watched;
};

static void *other_run(void *argument)
{
    struct other *other = argument;
    other->tid = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&other->ready);
    pthread_barrier_wait(&other->watched);
    burn(10 * PERIOD_NS);
    return NULL;
}

/* The C library's join is over a moment before the kernel's end of the thread. */
static void other_join(pthread_t thread, const struct other *other)
{
    pthread_join(thread, NULL);
    for (uint64_t end_ns = wall_ns() + 10000000000u;
         syscall(SYS_tgkill, getpid(), other->tid, 0) == 0 && wall_ns() < end_ns;)
        sched_yield();
}

TEST(another_thread_and_its_end)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    struct record record;
    struct other other;
    pthread_t thread;
    uint64_t count_ns = 0;
    pthread_barrier_init(&other.ready, NULL, 2);
    pthread_barrier_init(&other.watched, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, other_run, &other) == 0);
    pthread_barrier_wait(&other.ready);
    struct event_shape at_once = shape;
    at_once.disabled = false;
    int result = event_open(&event, &traits, &at_once, other.tid);
    bool ended_before = result == 0 && event_has_ended(&event);
    pthread_barrier_wait(&other.watched);
    other_join(thread, &other);
    REQUIRE(result == 0);
    CHECK(!ended_before);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    REQUIRE(find(&ring, &traits, RECORD_SAMPLE, &record));
    CHECK_U64(record.tid, other.tid);
    REQUIRE(find(&ring, &traits, RECORD_DEATH, &record));
    CHECK_U64(record.tid, other.tid);
    CHECK_U64(record.pid, getpid());
    CHECK_I64(event_read_count(&event, &count_ns), 0);
    CHECK(count_ns >= 9 * PERIOD_NS);
    event_close(&event);
}

TEST(an_end_before_the_ring_is_mapped)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    struct record record;
    struct other other;
    pthread_t thread;
    pthread_barrier_init(&other.ready, NULL, 2);
    pthread_barrier_init(&other.watched, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, other_run, &other) == 0);
    pthread_barrier_wait(&other.ready);
    int result = event_open_unmapped(&event, &traits, &shape, other.tid);
    pthread_barrier_wait(&other.watched);
    other_join(thread, &other);
    REQUIRE(result == 0);
    REQUIRE(event_map(&event, &shape) == 0);
    CHECK(event_has_ended(&event));
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    CHECK(!find(&ring, &traits, RECORD_DEATH, &record));
    event_close(&event);
}

TEST(a_task_that_is_gone)
{
    struct event_traits traits = traits_or_skip(false);
    struct event event;
    pid_t child = fork();
    if (child == 0)
        _exit(0);
    REQUIRE(child > 0 && waitpid(child, NULL, 0) == child);
    CHECK_I64(event_open(&event, &traits, &shape, child), -ESRCH);
    CHECK(event.mapping == NULL);
    CHECK_I64(event.fd, -1);
    event_close(&event); /* of one that never was */
}

TEST(the_largest_stack_copy)
{
    struct event_traits traits = traits_or_skip(false);
    struct event_shape large = shape;
    struct event event;
    struct record record;
    large.stack_bytes = EVENT_STACK_BYTES_MAX;
    REQUIRE(event_open(&event, &traits, &large, 0) == 0 && event_enable(&event) == 0);
    struct ring ring = ring_over(event.mapping, event.mapping_bytes);
    burn(5 * PERIOD_NS);
    REQUIRE(find(&ring, &traits, RECORD_SAMPLE, &record));
    CHECK(record.sample.stack_copy_bytes > 60000);
    event_close(&event);
    large.stack_bytes = EVENT_STACK_BYTES_MAX + 8;
    CHECK_I64(event_open(&event, &traits, &large, 0), -EINVAL);
}

TEST(the_limit_of_the_rate)
{
    unsigned long limit = 0;
    FILE *file = fopen("/proc/sys/kernel/perf_event_max_sample_rate", "r");
    if (file == NULL)
        SKIP("no perf_event_max_sample_rate");
    REQUIRE(fscanf(file, "%lu", &limit) == 1);
    fclose(file);
    CHECK_U64(event_rate_limit_hz(), limit);
}
