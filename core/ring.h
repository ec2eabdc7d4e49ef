/*
 * Reading side of a mapped ring. The kernel writes records and moves data_head; we read and move
 * data_tail. A record that wraps around the end is put together in a bounce buffer.
 *
 * Contract: one reader per ring, the helper. `ring_peek` shows the oldest record without taking it;
 * `ring_advance` gives its space back to the kernel, after which the record must not be touched.
 * The ring is the kernel's, but the app could scribble over it: no length is believed unchecked.
 */
#ifndef SELFSAMPLE_CORE_RING_H
#define SELFSAMPLE_CORE_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ring {
    void *control; /* struct perf_event_mmap_page */
    const uint8_t *data;
    uint64_t size; /* a power of two */
    uint64_t tail; /* our copy of data_tail */
};

/* How much of an event's mapping is its ring: what is before that is the control page. */
size_t ring_mapped_bytes(size_t mapping_bytes);

/* A ring over an event's mapping of MAPPING_BYTES (control page and data). */
struct ring ring_over(void *mapping, size_t mapping_bytes);

/* True where at least one record waits. Costs one load. */
bool ring_has_data(const struct ring *ring);

/* Is there room for another record, of BYTES? */
bool ring_has_room(const struct ring *ring, size_t bytes);

/* Does another record wait behind the oldest one? */
bool ring_has_more(struct ring *ring);

/*
 * The oldest record: *BYTES long, at the returned address; copied to BOUNCE (at least
 * RECORD_BYTES_MAX) where it wraps. NULL where none waits. A ring whose lengths make no sense is
 * emptied, and NULL returned.
 */
const void *ring_peek(struct ring *ring, size_t *bytes, void *bounce);

/* The time of the oldest record, ns, without copying it; 0 where none waits. */
uint64_t ring_peek_time_ns(struct ring *ring);

/* Takes the oldest record, of BYTES as ring_peek said. */
void ring_advance(struct ring *ring, size_t bytes);

#endif
