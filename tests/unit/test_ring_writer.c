/* ring_writer: what it writes is what ring and record read. */
#include "ring_writer.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check.h"
#include "event.h"
#include "record.h"
#include "ring.h"

#define DATA_BYTES    16384u
#define MAPPING_BYTES (EVENT_PAGE_BYTES + DATA_BYTES)
#define TID           ((uint64_t)gettid())

static uint64_t mapping[MAPPING_BYTES / 8];
static uint64_t bounce[RECORD_BYTES_MAX / 8];
static uint64_t registers[ARCH_PERF_REGISTER_COUNT];
static uint8_t stack[8192];
static struct ring_writer writer;
static struct ring ring;
static struct record record;

static void begin(void)
{
    memset(mapping, 0, sizeof mapping);
    writer = ring_writer_over(mapping, sizeof mapping, getpid(), gettid());
    ring = ring_over(mapping, sizeof mapping);
    for (unsigned i = 0; i < sizeof stack; i++)
        stack[i] = (uint8_t)(i * 7 + i / 256);
    for (unsigned i = 0; i < ARCH_PERF_REGISTER_COUNT; i++)
        registers[i] = 1000 + i;
}

static bool put(uint64_t time_ns, const void *stack_pointer, uint32_t bytes)
{
    const struct ring_writer_sample sample = {
        .time_ns = time_ns,
        .count_ns = time_ns / 2,
        .registers = registers,
        .stack_pointer = (uintptr_t)stack_pointer,
        .stack_bytes = bytes,
    };
    return ring_writer_put_sample(&writer, &sample);
}

/* The next record, decoded; its time is the same either way it is read. */
static bool next(void)
{
    size_t bytes;
    uint64_t time_ns = ring_peek_time_ns(&ring);
    const void *data = ring_peek(&ring, &bytes, bounce);
    if (data == NULL)
        return false;
    CHECK_U64((uint64_t)record_decode(&record, data, bytes, writer.has_callchain), 0);
    CHECK_U64(record.time_ns, time_ns);
    ring_advance(&ring, bytes);
    return true;
}

static void check_sample(uint64_t time_ns, const uint8_t *from, size_t bytes)
{
    REQUIRE(next());
    CHECK_U64(record.kind, RECORD_SAMPLE);
    CHECK_U64(record.time_ns, time_ns);
    CHECK_U64(record.sample.count_ns, time_ns / 2);
    CHECK_U64(record.pid, (uint64_t)getpid());
    CHECK_U64(record.tid, TID);
    CHECK_U64(record.sample.ip, 1000 + ARCH_PERF_INDEX_IP);
    REQUIRE(record.sample.registers != NULL);
    CHECK(memcmp(record.sample.registers, registers, sizeof registers) == 0);
    CHECK_U64(record.sample.stack_bytes, bytes);
    CHECK(memcmp(record.sample.stack, from, bytes) == 0);
}

TEST(a_sample_comes_out_as_it_went_in)
{
    begin();
    CHECK(!next());
    CHECK(put(100, stack, 4096));
    check_sample(100, stack, 4096);
    CHECK(!next());
}

TEST(samples_wrap_around_the_end)
{
    begin();
    for (uint64_t i = 1; i < 100; i++) {
        CHECK(put(i * 100, stack + i * 8, 3000 + (uint32_t)i * 8));
        check_sample(i * 100, stack + i * 8, 3000 + i * 8);
    }
}

TEST(an_empty_chain_is_there_where_readers_expect_one)
{
    begin();
    writer.has_callchain = true;
    CHECK(put(100, stack, 512));
    check_sample(100, stack, 512);
    CHECK_U64(record.sample.kernel_ip_count, 0);
}

TEST(a_copy_ends_where_the_stack_does)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uint8_t *two = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(two != MAP_FAILED && munmap(two + page, page) == 0);
    memset(two, 0x5a, page);
    begin();
    CHECK(put(100, two + page - 128, 4096));
    check_sample(100, two + page - 128, 128);
    munmap(two, page);
    CHECK(put(200, two, 4096)); /* nothing at all is there */
    REQUIRE(next());
    CHECK_U64(record.sample.stack_bytes, 0);
    CHECK(put(300, stack, 128));
    check_sample(300, stack, 128);
}

TEST(what_finds_no_room_is_told)
{
    begin();
    unsigned fitted = 0;
    while (put(100, stack, 4000))
        fitted++;
    CHECK_U64(fitted, DATA_BYTES / (4000 + RECORD_SAMPLE_FIXED_BYTES));
    CHECK(!put(100, stack, 4000));
    for (unsigned i = 0; i < fitted; i++)
        check_sample(100, stack, 4000);
    CHECK(!next());
    CHECK(put(200, stack, 64));
    REQUIRE(next());
    CHECK_U64(record.kind, RECORD_LOST);
    CHECK_U64(record.lost, 2);
    check_sample(200, stack, 64);
    CHECK(put(300, stack, 64));
    check_sample(300, stack, 64);
}

TEST(names_and_ends)
{
    begin();
    CHECK(ring_writer_put_name(&writer, "a-name-of-fiftee", 100));
    CHECK(ring_writer_put_end(&writer, 200));
    REQUIRE(next());
    CHECK_U64(record.kind, RECORD_NAME);
    CHECK_U64(record.tid, TID);
    CHECK_STR(record.name, "a-name-of-fifte");
    REQUIRE(next());
    CHECK_U64(record.kind, RECORD_DEATH);
    CHECK_U64(record.tid, TID);
    CHECK_U64(record.pid, (uint64_t)getpid());
    CHECK_U64(record.time_ns, 200);
}

TEST(a_ring_is_empty_for_its_next_writer)
{
    begin();
    CHECK(put(100, stack, 64));
    writer = ring_writer_over(mapping, sizeof mapping, getpid(), 1);
    ring = ring_over(mapping, sizeof mapping);
    CHECK(!next());
    writer.tid = gettid();
    CHECK(put(200, stack, 64));
    check_sample(200, stack, 64);
}

TEST(the_longest_record_is_told_by_16_bits)
{
    CHECK(ring_writer_stack_bytes_max() + RECORD_SAMPLE_FIXED_BYTES + 8 <= UINT16_MAX);
    CHECK(ring_writer_stack_bytes_max() > 65000);
}
