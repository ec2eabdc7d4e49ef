/* ring: a ring in ordinary memory, written as the kernel would, whole and damaged. */
#include "ring.h"

#include <linux/perf_event.h>

#include "check.h"
#include "event.h"
#include "record.h"

#define RING_BYTES 4096u

static _Alignas(4096) uint8_t mapping[EVENT_PAGE_BYTES + RING_BYTES];
static uint64_t bounce[RECORD_BYTES_MAX / 8];

static struct perf_event_mmap_page *control(void)
{
    return (void *)mapping;
}

/* An empty ring whose next record comes at POSITION of the endless stream. */
static struct ring ring_at(uint64_t position)
{
    memset(mapping, 0xee, sizeof mapping);
    control()->data_head = control()->data_tail = position;
    return ring_over(mapping, sizeof mapping);
}

static void write_bytes(uint64_t position, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        mapping[EVENT_PAGE_BYTES + (position + i) % RING_BYTES] = ((const uint8_t *)data)[i];
}

static void write_header(uint64_t position, uint32_t type, uint16_t size)
{
    struct perf_event_header header = {.type = type, .size = size};
    write_bytes(position, &header, sizeof header);
}

/* A record of BYTES: header, words that count up from TAG, the time as its last word (in a sample:
 * as its fourth). */
static void produce(uint32_t type, uint16_t bytes, uint64_t tag, uint64_t time_ns)
{
    uint64_t position = control()->data_head;
    write_header(position, type, bytes);
    for (uint64_t i = 1; i < bytes / 8u; i++)
        write_bytes(position + 8 * i, &(uint64_t){tag + i}, 8);
    if (bytes >= 24)
        write_bytes(position + (type == PERF_RECORD_SAMPLE ? 24 : bytes - 8u), &time_ns, 8);
    control()->data_head = position + bytes;
}

/* As the kernel counts it, which leaves one byte free. */
TEST(a_ring_is_full_where_the_next_record_would_be_lost)
{
    struct ring ring = ring_at(RING_BYTES - 256);
    CHECK(ring_has_room(&ring, RING_BYTES - 8) && !ring_has_room(&ring, RING_BYTES));
    produce(PERF_RECORD_SAMPLE, 1024, 1, 1);
    CHECK(ring_has_room(&ring, RING_BYTES - 1032) && !ring_has_room(&ring, RING_BYTES - 1024));
    ring_advance(&ring, 1024);
    CHECK(ring_has_room(&ring, RING_BYTES - 8));
}

TEST(an_empty_ring_has_nothing)
{
    struct ring ring = ring_at(0);
    size_t bytes = 1;
    CHECK_U64(ring.size, RING_BYTES);
    CHECK(!ring_has_data(&ring) && !ring_has_more(&ring));
    CHECK(ring_peek(&ring, &bytes, bounce) == NULL);
    CHECK_U64(bytes, 0);
    CHECK_U64(ring_peek_time_ns(&ring), 0);
}

TEST(records_come_in_order_and_give_their_space_back)
{
    struct ring ring = ring_at(RING_BYTES * 3);
    produce(PERF_RECORD_SAMPLE, 64, 1000, 111);
    produce(PERF_RECORD_COMM, 40, 2000, 222);
    size_t bytes;
    CHECK(ring_has_data(&ring) && ring_has_more(&ring));
    CHECK_U64(ring_peek_time_ns(&ring), 111);
    const uint64_t *record = ring_peek(&ring, &bytes, bounce);
    REQUIRE(record != NULL && bytes == 64);
    CHECK_U64(record[1], 1001);
    CHECK(record != bounce); /* it did not wrap: no copy */
    CHECK_U64(control()->data_tail, RING_BYTES * 3);
    ring_advance(&ring, bytes);
    CHECK_U64(control()->data_tail, RING_BYTES * 3 + 64);
    CHECK_U64(ring_peek_time_ns(&ring), 222);
    CHECK(!ring_has_more(&ring));
    record = ring_peek(&ring, &bytes, bounce);
    REQUIRE(record != NULL && bytes == 40);
    CHECK_U64(record[1], 2001);
    ring_advance(&ring, bytes);
    CHECK(!ring_has_data(&ring));
}

TEST(records_wrap_at_every_place)
{
    for (uint64_t before = 8; before < 72; before += 8) {
        struct ring ring = ring_at(5 * RING_BYTES - before);
        produce(PERF_RECORD_SAMPLE, 72, 50, 333);
        size_t bytes;
        CHECK_U64(ring_peek_time_ns(&ring), 333);
        const uint64_t *record = ring_peek(&ring, &bytes, bounce);
        REQUIRE(record == bounce && bytes == 72);
        for (uint64_t i = 1; i < 9; i++)
            CHECK_U64(record[i], i == 3 ? 333 : 50 + i);
        ring_advance(&ring, bytes);
        CHECK(!ring_has_data(&ring));
    }
}

TEST(the_end_of_the_counters)
{
    struct ring ring = ring_at(UINT64_MAX - 31);
    produce(PERF_RECORD_COMM, 64, 7, 444);
    size_t bytes;
    CHECK_U64(ring_peek_time_ns(&ring), 444);
    const uint64_t *record = ring_peek(&ring, &bytes, bounce);
    REQUIRE(record != NULL && bytes == 64);
    CHECK_U64(record[4], 11);
    ring_advance(&ring, bytes);
    CHECK_U64(control()->data_tail, 32);
    CHECK(!ring_has_data(&ring));
}

TEST(a_ring_that_is_full_to_the_last_byte)
{
    struct ring ring = ring_at(24);
    for (unsigned i = 0; i < RING_BYTES / 64; i++)
        produce(PERF_RECORD_SAMPLE, 64, i * 100, i);
    unsigned count = 0;
    size_t bytes;
    for (const uint64_t *record; (record = ring_peek(&ring, &bytes, bounce)) != NULL; count++) {
        CHECK_U64(record[1], count * 100 + 1);
        ring_advance(&ring, bytes);
    }
    CHECK_U64(count, RING_BYTES / 64);
    CHECK_U64(control()->data_tail, 24 + RING_BYTES);
}

TEST(a_record_as_large_as_the_ring)
{
    struct ring ring = ring_at(RING_BYTES - 16);
    produce(PERF_RECORD_SAMPLE, RING_BYTES, 0, 9);
    size_t bytes;
    const uint64_t *record = ring_peek(&ring, &bytes, bounce);
    REQUIRE(record == bounce && bytes == RING_BYTES);
    CHECK_U64(record[RING_BYTES / 8 - 1], RING_BYTES / 8 - 1);
}

/* Whatever stands there, the ring is emptied and goes on with what comes then. */
static void check_emptied(struct ring *ring)
{
    size_t bytes = 1;
    struct ring again = *ring;
    uint64_t tail = control()->data_tail;
    CHECK(ring_peek(ring, &bytes, bounce) == NULL);
    CHECK_U64(bytes, 0);
    CHECK(!ring_has_data(ring));
    CHECK_U64(control()->data_tail, control()->data_head);
    control()->data_tail = tail;
    CHECK_U64(ring_peek_time_ns(&again), 0);
    CHECK(!ring_has_data(&again));
    produce(PERF_RECORD_COMM, 32, 60, 555);
    CHECK_U64(ring_peek_time_ns(ring), 555);
}

TEST(lengths_that_make_no_sense)
{
    static const uint16_t sizes[] = {0, 4, 7, 12, 63, 72, 4096, 4104, 65528, 65535};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct ring ring = ring_at(128);
        produce(PERF_RECORD_SAMPLE, 64, 0, 1);
        write_header(128, PERF_RECORD_SAMPLE, sizes[i]);
        check_emptied(&ring);
    }
}

TEST(a_head_that_makes_no_sense)
{
    static const uint64_t heads[] = {RING_BYTES + 136, 1ull << 40, 64, 0};
    for (unsigned i = 0; i < sizeof heads / sizeof *heads; i++) {
        struct ring ring = ring_at(128);
        produce(PERF_RECORD_SAMPLE, 64, 0, 1);
        control()->data_head = heads[i];
        check_emptied(&ring);
    }
}

TEST(a_record_too_short_for_a_time)
{
    struct ring ring = ring_at(0);
    produce(PERF_RECORD_THROTTLE, 16, 0, 1);
    CHECK(ring_has_data(&ring));
    CHECK_U64(ring_peek_time_ns(&ring), 0);
    struct ring other = ring_at(0);
    produce(PERF_RECORD_SAMPLE, 24, 0, 1);
    produce(PERF_RECORD_COMM, 32, 700, 2);
    CHECK_U64(ring_peek_time_ns(&other), 0); /* not a word of the record behind it */
}
