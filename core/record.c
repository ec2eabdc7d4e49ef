/* Decodes the kernel's records. Runs in the helper; pure, reads nothing beyond the bytes it is
 * given. */
#include "record.h"

#include <errno.h>
#include <linux/perf_event.h>

/* A reader over the body of one record that can't run over its end. */
struct cursor {
    const uint8_t *at;
    size_t left;
    bool failed;
};

static const void *take(struct cursor *cursor, size_t bytes)
{
    static const uint64_t nothing[4];
    if (bytes > cursor->left) {
        cursor->failed = true;
        return bytes <= sizeof nothing ? nothing : NULL;
    }
    const void *data = cursor->at;
    cursor->at += bytes;
    cursor->left -= bytes;
    return data;
}

static uint64_t take_u64(struct cursor *cursor)
{
    return *(const uint64_t *)take(cursor, 8);
}

static uint32_t take_u32(struct cursor *cursor)
{
    return *(const uint32_t *)take(cursor, 4);
}

/* The text up to its NUL within what is left; the record's padding makes it end in one. */
static const char *take_text(struct cursor *cursor)
{
    const char *text = (const char *)cursor->at;
    for (size_t i = 0; i < cursor->left; i++)
        if (text[i] == '\0')
            return text;
    cursor->failed = true;
    return "";
}

static void decode_callchain(struct record *record, struct cursor *cursor)
{
    uint64_t count = take_u64(cursor);
    if (count > cursor->left / 8) {
        cursor->failed = true;
        return;
    }
    const uint64_t *ips = take(cursor, count * 8);
    /* Entries above PERF_CONTEXT_MAX are marks (here only "kernel"), not addresses. */
    while (count > 0 && ips[0] >= (uint64_t)PERF_CONTEXT_MAX) {
        ips++;
        count--;
    }
    record->sample.kernel_ips = ips;
    record->sample.kernel_ip_count = count;
}

/* Code of 32 bits that runs in a process of 64 has them too, but is not unwound. */
static void decode_registers(struct record *record, struct cursor *cursor)
{
    uint64_t abi = take_u64(cursor);
    if (abi == PERF_SAMPLE_REGS_ABI_NONE)
        return;
    const uint64_t *registers = take(cursor, 8 * ARCH_PERF_REGISTER_COUNT);
    if (abi == PERF_SAMPLE_REGS_ABI_64)
        record->sample.registers = registers;
}

static void decode_stack(struct record *record, struct cursor *cursor)
{
    uint64_t size = take_u64(cursor);
    if (size == 0)
        return;
    if (size > cursor->left || size % 8 != 0) {
        cursor->failed = true;
        return;
    }
    record->sample.stack = take(cursor, size);
    record->sample.stack_copy_bytes = size;
    uint64_t real = take_u64(cursor);
    record->sample.stack_bytes = real <= size ? real : size;
}

static void decode_sample(struct record *record, struct cursor *cursor, bool has_callchain)
{
    record->kind = RECORD_SAMPLE;
    record->sample.ip = take_u64(cursor);
    record->pid = take_u32(cursor);
    record->tid = take_u32(cursor);
    record->time_ns = take_u64(cursor);
    record->sample.count_ns = take_u64(cursor);
    if (has_callchain)
        decode_callchain(record, cursor);
    decode_registers(record, cursor);
    decode_stack(record, cursor);
}

static void decode_map(struct record *record, struct cursor *cursor)
{
    record->kind = RECORD_MAP;
    record->pid = take_u32(cursor);
    record->tid = take_u32(cursor);
    record->map.start = take_u64(cursor);
    record->map.bytes = take_u64(cursor);
    record->map.file_offset = take_u64(cursor);
    record->map.device_major = take_u32(cursor);
    record->map.device_minor = take_u32(cursor);
    record->map.inode = take_u64(cursor);
    take_u64(cursor); /* inode generation */
    take_u64(cursor); /* protection, flags */
    record->map.path = take_text(cursor);
}

static void decode_birth_or_death(struct record *record, struct cursor *cursor)
{
    record->pid = take_u32(cursor);
    record->birth.parent_pid = take_u32(cursor);
    record->tid = take_u32(cursor);
    record->birth.parent_tid = take_u32(cursor);
}

static void decode_name(struct record *record, struct cursor *cursor, bool exec)
{
    record->kind = exec ? RECORD_EXEC : RECORD_NAME;
    record->pid = take_u32(cursor);
    record->tid = take_u32(cursor);
    record->name = take_text(cursor);
}

uint64_t record_time_ns(const void *data, size_t bytes)
{
    const struct perf_event_header *header = data;
    if (bytes < 24 || bytes % 8 != 0)
        return 0;
    if (header->type == PERF_RECORD_SAMPLE) /* header, ip, pid+tid, time */
        return bytes >= 32 ? ((const uint64_t *)data)[3] : 0;
    /* All others end in the sample id: pid+tid, time. */
    return *(const uint64_t *)((const uint8_t *)data + bytes - 8);
}

int record_decode(struct record *record, const void *data, size_t bytes, bool has_callchain)
{
    const struct perf_event_header *header = data;
    *record = (struct record){.kind = RECORD_OTHER};
    if (bytes < sizeof *header || header->size != bytes || bytes % 8 != 0)
        return -EBADMSG;
    struct cursor cursor = {(const uint8_t *)data + sizeof *header, bytes - sizeof *header, false};
    if (header->type != PERF_RECORD_SAMPLE)
        record->time_ns = record_time_ns(data, bytes);
    switch (header->type) {
    case PERF_RECORD_SAMPLE:
        decode_sample(record, &cursor, has_callchain);
        break;
    case PERF_RECORD_MMAP2:
        decode_map(record, &cursor);
        break;
    case PERF_RECORD_COMM:
        decode_name(record, &cursor, header->misc & PERF_RECORD_MISC_COMM_EXEC);
        break;
    case PERF_RECORD_FORK:
        record->kind = RECORD_BIRTH;
        decode_birth_or_death(record, &cursor);
        break;
    case PERF_RECORD_EXIT:
        record->kind = RECORD_DEATH;
        decode_birth_or_death(record, &cursor);
        break;
    case PERF_RECORD_LOST:
        record->kind = RECORD_LOST;
        take_u64(&cursor); /* event id */
        record->lost = take_u64(&cursor);
        break;
    case PERF_RECORD_THROTTLE:
        record->kind = RECORD_THROTTLE;
        break;
    default:
        break;
    }
    return cursor.failed ? -EBADMSG : 0;
}
