/*
 * A ring that the program has scribbled over, out of any bytes: its head, and records whose lengths
 * are wrong. What is decoded must lie within the record. libFuzzer's entry.
 */
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "record.h"
#include "ring.h"

#define PAGE_BYTES  4096u
#define DATA_BYTES  (2 * PAGE_BYTES)
#define RECORDS_MAX (2 * DATA_BYTES / 8)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Goes through all that the record points at: the sanitizer sees what is outside of it. */
static uint64_t record_sum(const struct record *record)
{
    uint64_t sum = 0;
    switch (record->kind) {
    case RECORD_SAMPLE:
        for (size_t i = 0; i < record->sample.kernel_ip_count; i++)
            sum += record->sample.kernel_ips[i];
        for (size_t i = 0; record->sample.registers != NULL && i < ARCH_PERF_REGISTER_COUNT; i++)
            sum += record->sample.registers[i];
        for (size_t i = 0; i < record->sample.stack_bytes; i++)
            sum += record->sample.stack[i];
        return sum;
    case RECORD_NAME:
        return strlen(record->name);
    case RECORD_MAP:
        return strlen(record->map.path);
    default:
        return 0;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static _Alignas(PAGE_BYTES) uint8_t mapping[PAGE_BYTES + DATA_BYTES];
    static _Alignas(8) uint8_t bounce[RECORD_BYTES_MAX];
    struct perf_event_mmap_page *control = (void *)mapping;
    struct record record;
    size_t count;
    uint64_t sum = 0;
    if (bytes < 1 + 2 * sizeof(uint16_t))
        return 0;
    uint16_t tail, head;
    memcpy(&tail, data + 1, sizeof tail);
    memcpy(&head, data + 3, sizeof head);
    memset(mapping, 0, sizeof mapping);
    memcpy(mapping + PAGE_BYTES, data + 5, bytes - 5 < DATA_BYTES ? bytes - 5 : DATA_BYTES);
    control->data_tail = tail & ~7u;
    control->data_head = head;
    struct ring ring = ring_over(mapping, sizeof mapping);
    for (unsigned i = 0; i < RECORDS_MAX && ring_has_data(&ring); i++) {
        sum += ring_peek_time_ns(&ring) + ring_has_more(&ring);
        const void *at = ring_peek(&ring, &count, bounce);
        if (at == NULL)
            break;
        /* A copy of its own, so that nothing behind it belongs to it. */
        void *alone = malloc(count);
        memcpy(alone, at, count);
        sum += record_time_ns(alone, count);
        if (record_decode(&record, alone, count, (data[0] & 1) != 0) == 0)
            sum += record_sum(&record);
        free(alone);
        ring_advance(&ring, count);
    }
    return sum == 1; /* it is used; -1 would reject the input */
}
