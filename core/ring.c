/* Reads the kernel's ring. Runs in the helper. */
#include "ring.h"

#include <linux/perf_event.h>

#include "event.h"
#include "record.h"

size_t ring_mapped_bytes(size_t mapping_bytes)
{
    return mapping_bytes == 0 ? 0 : (size_t)1 << (63 - __builtin_clzll(mapping_bytes - 1));
}

struct ring ring_over(void *mapping, size_t mapping_bytes)
{
    const struct perf_event_mmap_page *control = mapping;
    const size_t bytes = ring_mapped_bytes(mapping_bytes);
    return (struct ring){
        .control = mapping,
        .data = (const uint8_t *)mapping + mapping_bytes - bytes,
        .size = bytes,
        .tail = control->data_tail,
    };
}

/* Pairs with the barrier the kernel has between writing records and moving data_head. */
static uint64_t head_of(const struct ring *ring)
{
    const struct perf_event_mmap_page *control = ring->control;
    return __atomic_load_n(&control->data_head, __ATOMIC_ACQUIRE);
}

bool ring_has_data(const struct ring *ring)
{
    return head_of(ring) != ring->tail;
}

bool ring_has_room(const struct ring *ring, size_t bytes)
{
    return head_of(ring) - ring->tail + bytes < ring->size;
}

static void tail_set(struct ring *ring, uint64_t tail)
{
    struct perf_event_mmap_page *control = ring->control;
    ring->tail = tail;
    __atomic_store_n(&control->data_tail, tail, __ATOMIC_RELEASE);
}

static void copy_out(const struct ring *ring, uint64_t position, void *to, size_t bytes)
{
    size_t offset = position & (ring->size - 1);
    size_t first = ring->size - offset < bytes ? ring->size - offset : bytes;
    __builtin_memcpy(to, ring->data + offset, first);
    __builtin_memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

/* The length of the record at the tail; 0 where there is none or the ring is damaged (then
 * emptied). Records are 8-aligned, so a header never wraps. */
static size_t length_at_tail(struct ring *ring)
{
    uint64_t head = head_of(ring);
    if (head == ring->tail)
        return 0;
    const struct perf_event_header *header =
        (const void *)(ring->data + (ring->tail & (ring->size - 1)));
    size_t bytes = header->size;
    if (bytes < sizeof *header || bytes % 8 != 0 || bytes > head - ring->tail ||
        bytes > ring->size || head - ring->tail > ring->size) {
        tail_set(ring, head);
        return 0;
    }
    return bytes;
}

bool ring_has_more(struct ring *ring)
{
    if (ring->control == NULL) /* none was ever mapped */
        return false;
    size_t bytes = length_at_tail(ring);
    return bytes != 0 && head_of(ring) != ring->tail + bytes;
}

const void *ring_peek(struct ring *ring, size_t *bytes, void *bounce)
{
    *bytes = length_at_tail(ring);
    if (*bytes == 0)
        return NULL;
    size_t offset = ring->tail & (ring->size - 1);
    if (ring->size - offset >= *bytes)
        return ring->data + offset;
    copy_out(ring, ring->tail, bounce, *bytes);
    return bounce;
}

uint64_t ring_peek_time_ns(struct ring *ring)
{
    size_t bytes = length_at_tail(ring);
    if (bytes == 0)
        return 0;
    const struct perf_event_header *header =
        (const void *)(ring->data + (ring->tail & (ring->size - 1)));
    /* As record_time_ns has it, but of a record that may wrap. */
    bool sample = header->type == PERF_RECORD_SAMPLE;
    uint64_t time_ns;
    if (bytes < (sample ? 32 : 24))
        return 0;
    copy_out(ring, ring->tail + (sample ? 24 : bytes - 8), &time_ns, sizeof time_ns);
    return time_ns;
}

void ring_advance(struct ring *ring, size_t bytes)
{
    tail_set(ring, ring->tail + bytes);
}
