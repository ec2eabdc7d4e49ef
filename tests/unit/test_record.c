/*
 * record: records put together byte by byte as perf_event_open(2) lays them out, whole, cut at
 * every length and with lengths that lie.
 */
#include "check.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdlib.h>

#include "record.h"

#define STACK_BYTES 64u

/* A record under construction. */
struct draft {
    uint64_t words[128];
    size_t bytes;
};

static void put(struct draft *draft, const void *data, size_t bytes)
{
    memcpy((uint8_t *)draft->words + draft->bytes, data, bytes);
    draft->bytes += bytes;
}

static void put_u64(struct draft *draft, uint64_t value)
{
    put(draft, &value, sizeof value);
}

static void put_u32(struct draft *draft, uint32_t value)
{
    put(draft, &value, sizeof value);
}

/* The text, its NUL, and zeros up to a multiple of 8. */
static void put_text(struct draft *draft, const char *text)
{
    put(draft, text, strlen(text) + 1);
    while (draft->bytes % 8 != 0)
        put(draft, "", 1);
}

static struct draft begin(uint32_t type, uint16_t misc)
{
    struct draft draft = {.bytes = 0};
    put_u32(&draft, type);
    put(&draft, &misc, sizeof misc);
    put(&draft, "\0", 2); /* the size, once it is known */
    return draft;
}

static void set_size(struct draft *draft, size_t bytes)
{
    uint16_t size = (uint16_t)bytes;
    memcpy((uint8_t *)draft->words + 6, &size, sizeof size);
}

/* What ends all records but samples: pid, tid, time. */
static void end(struct draft *draft)
{
    put_u32(draft, 41);
    put_u32(draft, 42);
    put_u64(draft, 777);
    set_size(draft, draft->bytes);
}

static int decode(struct record *record, const struct draft *draft, bool has_callchain)
{
    return record_decode(record, draft->words, draft->bytes, has_callchain);
}

/* Registers are numbered 100, 101, ...; byte I of the stack is I. Without a call chain: CHAIN 0. */
static struct draft sample(const uint64_t *chain, uint64_t chain_count, uint64_t abi,
                           uint64_t stack_bytes, uint64_t dynamic_bytes)
{
    struct draft draft = begin(PERF_RECORD_SAMPLE, PERF_RECORD_MISC_USER);
    put_u64(&draft, 0x401234);
    put_u32(&draft, 10);
    put_u32(&draft, 11);
    put_u64(&draft, 1234567);
    put_u64(&draft, 5000);
    if (chain != NULL) {
        put_u64(&draft, chain_count);
        put(&draft, chain, chain_count * 8);
    }
    put_u64(&draft, abi);
    for (uint64_t i = 0; abi != PERF_SAMPLE_REGS_ABI_NONE && i < ARCH_PERF_REGISTER_COUNT; i++)
        put_u64(&draft, 100 + i);
    put_u64(&draft, stack_bytes);
    for (uint64_t i = 0; i < stack_bytes; i++)
        put(&draft, &(uint8_t){(uint8_t)i}, 1);
    if (stack_bytes > 0)
        put_u64(&draft, dynamic_bytes);
    set_size(&draft, draft.bytes);
    return draft;
}

TEST(a_sample_without_kernel_frames)
{
    struct record record;
    struct draft draft = sample(NULL, 0, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 40);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_SAMPLE);
    CHECK_U64(record.pid, 10);
    CHECK_U64(record.tid, 11);
    CHECK_U64(record.time_ns, 1234567);
    CHECK_U64(record.sample.ip, 0x401234);
    CHECK_U64(record.sample.count_ns, 5000);
    CHECK_U64(record.sample.kernel_ip_count, 0);
    REQUIRE(record.sample.registers != NULL && record.sample.stack != NULL);
    CHECK_U64(record.sample.registers[0], 100);
    CHECK_U64(record.sample.registers[ARCH_PERF_INDEX_IP], 100 + ARCH_PERF_INDEX_IP);
    CHECK_U64(record.sample.stack[0], 0);
    CHECK_U64(record.sample.stack[63], 63);
    CHECK_U64(record.sample.stack_bytes, 40);
    CHECK_U64(record.sample.stack_copy_bytes, STACK_BYTES);
    CHECK_U64(draft.bytes, RECORD_SAMPLE_FIXED_BYTES + STACK_BYTES);
    CHECK_U64(record_time_ns(draft.words, draft.bytes), 1234567);
}

TEST(kernel_frames_come_without_their_marks)
{
    const uint64_t chain[] = {(uint64_t)PERF_CONTEXT_KERNEL, 0xffffffff81000010,
                              0xffffffff81000020};
    struct record record;
    struct draft draft = sample(chain, 3, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 0);
    REQUIRE(decode(&record, &draft, true) == 0);
    REQUIRE(record.sample.kernel_ip_count == 2);
    CHECK_U64(record.sample.kernel_ips[0], 0xffffffff81000010);
    CHECK_U64(record.sample.kernel_ips[1], 0xffffffff81000020);
    CHECK_U64(record.sample.registers[1], 101);
    CHECK_U64(record.sample.stack_bytes, 0);
}

TEST(an_empty_call_chain)
{
    const uint64_t marks[] = {(uint64_t)PERF_CONTEXT_KERNEL};
    struct record record;
    struct draft draft = sample(marks, 0, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 8);
    REQUIRE(decode(&record, &draft, true) == 0);
    CHECK_U64(record.sample.kernel_ip_count, 0);
    draft = sample(marks, 1, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 8);
    REQUIRE(decode(&record, &draft, true) == 0);
    CHECK_U64(record.sample.kernel_ip_count, 0);
    CHECK_U64(record.sample.stack_bytes, 8);
}

TEST(a_call_chain_that_lies_about_its_length)
{
    static const uint64_t counts[] = {33, 64, 1000, UINT64_MAX / 8, UINT64_MAX / 8 + 2, UINT64_MAX};
    const uint64_t chain[] = {0xffffffff81000010};
    struct record record;
    for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct draft draft = sample(chain, 1, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 8);
        draft.words[5] = counts[i];
        CHECK_I64(decode(&record, &draft, true), -EBADMSG);
    }
}

TEST(a_sample_without_user_state)
{
    struct record record;
    struct draft draft = sample(NULL, 0, PERF_SAMPLE_REGS_ABI_NONE, 0, 0);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK(record.sample.registers == NULL);
    CHECK(record.sample.stack == NULL);
    CHECK_U64(record.sample.stack_bytes, 0);
}

/* Code of 32 bits in a process of 64: there are registers in the record, but not for us. */
TEST(registers_of_32_bits_are_passed_over)
{
    struct record record;
    struct draft draft = sample(NULL, 0, PERF_SAMPLE_REGS_ABI_32, STACK_BYTES, 24);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK(record.sample.registers == NULL);
    CHECK_U64(record.sample.stack_copy_bytes, STACK_BYTES);
    CHECK_U64(record.sample.stack_bytes, 24);
}

TEST(a_stack_is_never_longer_than_its_copy)
{
    const size_t size_at = (RECORD_SAMPLE_FIXED_BYTES - 16) / 8;
    struct record record;
    struct draft draft = sample(NULL, 0, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, UINT64_MAX);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.sample.stack_bytes, STACK_BYTES);
    CHECK_U64(draft.words[size_at], STACK_BYTES);
    static const uint64_t sizes[] = {STACK_BYTES + 8, STACK_BYTES + 9, 65536, UINT64_MAX};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        draft.words[size_at] = sizes[i];
        CHECK_I64(decode(&record, &draft, false), -EBADMSG);
    }
}

static struct draft map(const char *path)
{
    struct draft draft = begin(PERF_RECORD_MMAP2, 0);
    put_u32(&draft, 10);
    put_u32(&draft, 11);
    put_u64(&draft, 0x7f0000001000);
    put_u64(&draft, 0x3000);
    put_u64(&draft, 0x2000);
    put_u32(&draft, 8);
    put_u32(&draft, 1);
    put_u64(&draft, 98765);
    put_u64(&draft, 1); /* generation */
    put_u32(&draft, 5); /* protection */
    put_u32(&draft, 2); /* flags */
    put_text(&draft, path);
    end(&draft);
    return draft;
}

TEST(a_mapping)
{
    struct record record;
    struct draft draft = map("/usr/lib/libfoo.so");
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_MAP);
    CHECK_U64(record.pid, 10);
    CHECK_U64(record.tid, 11);
    CHECK_U64(record.time_ns, 777);
    CHECK_U64(record.map.start, 0x7f0000001000);
    CHECK_U64(record.map.bytes, 0x3000);
    CHECK_U64(record.map.file_offset, 0x2000);
    CHECK_U64(record.map.device_major, 8);
    CHECK_U64(record.map.device_minor, 1);
    CHECK_U64(record.map.inode, 98765);
    CHECK_STR(record.map.path, "/usr/lib/libfoo.so");
}

TEST(a_path_without_an_end)
{
    struct record record;
    struct draft draft = map("/usr/lib/libfoo.so");
    uint8_t *bytes = (uint8_t *)draft.words;
    for (size_t i = 72; i < draft.bytes; i++)
        bytes[i] |= 1; /* no NUL is left, not in what follows the path either */
    CHECK_I64(decode(&record, &draft, false), -EBADMSG);
}

static struct draft name(uint16_t misc)
{
    struct draft draft = begin(PERF_RECORD_COMM, misc);
    put_u32(&draft, 10);
    put_u32(&draft, 12);
    put_text(&draft, "worker one");
    end(&draft);
    return draft;
}

TEST(a_name_and_an_exec)
{
    struct record record;
    struct draft draft = name(0);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_NAME);
    CHECK_U64(record.tid, 12);
    CHECK_U64(record.time_ns, 777);
    CHECK_STR(record.name, "worker one");
    draft = name(PERF_RECORD_MISC_COMM_EXEC);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_EXEC);
}

static struct draft birth_or_death(uint32_t type)
{
    struct draft draft = begin(type, 0);
    put_u32(&draft, 10);
    put_u32(&draft, 9);
    put_u32(&draft, 21);
    put_u32(&draft, 20);
    put_u64(&draft, 555); /* its own time; ours is the one at the end */
    end(&draft);
    return draft;
}

TEST(a_birth_and_a_death)
{
    struct record record;
    struct draft draft = birth_or_death(PERF_RECORD_FORK);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_BIRTH);
    CHECK_U64(record.pid, 10);
    CHECK_U64(record.tid, 21);
    CHECK_U64(record.birth.parent_pid, 9);
    CHECK_U64(record.birth.parent_tid, 20);
    CHECK_U64(record.time_ns, 777);
    draft = birth_or_death(PERF_RECORD_EXIT);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_DEATH);
    CHECK_U64(record.tid, 21);
}

TEST(what_was_lost_or_throttled_and_what_is_unknown)
{
    struct record record;
    struct draft draft = begin(PERF_RECORD_LOST, 0);
    put_u64(&draft, 3);
    put_u64(&draft, 17);
    end(&draft);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_LOST);
    CHECK_U64(record.lost, 17);
    CHECK_U64(record.time_ns, 777);
    draft = begin(PERF_RECORD_THROTTLE, 0);
    end(&draft);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_THROTTLE);
    draft = begin(99, 0);
    end(&draft);
    REQUIRE(decode(&record, &draft, false) == 0);
    CHECK_U64(record.kind, RECORD_OTHER);
    CHECK_U64(record.time_ns, 777);
}

/* In memory that ends where the record does, so that a sanitizer sees any reading beyond. */
static int decode_cut(const struct draft *draft, size_t bytes, bool size_agrees)
{
    struct record record;
    uint64_t *copy = malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        abort();
    memcpy(copy, draft->words, bytes);
    if (size_agrees && bytes >= 8)
        memcpy((uint8_t *)copy + 6, &(uint16_t){(uint16_t)bytes}, 2);
    int result = record_decode(&record, copy, bytes, false);
    record_time_ns(copy, bytes);
    free(copy);
    return result;
}

TEST(records_cut_at_every_length)
{
    struct draft lost = begin(PERF_RECORD_LOST, 0);
    put_u64(&lost, 3);
    put_u64(&lost, 17);
    end(&lost);
    const struct draft drafts[] = {sample(NULL, 0, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 40),
                                   map("/lib/a.so"),
                                   name(0),
                                   birth_or_death(PERF_RECORD_FORK),
                                   birth_or_death(PERF_RECORD_EXIT),
                                   lost};
    /* How much each needs: what follows is the end that all have, which is not missed. */
    const size_t needed[] = {drafts[0].bytes, 72 + 16, 16 + 16, 24, 24, 24};
    for (unsigned i = 0; i < sizeof drafts / sizeof *drafts; i++) {
        for (size_t bytes = 0; bytes < drafts[i].bytes; bytes++)
            CHECK_I64(decode_cut(&drafts[i], bytes, false), -EBADMSG);
        for (size_t bytes = 0; bytes < needed[i]; bytes++)
            if (decode_cut(&drafts[i], bytes, true) != -EBADMSG)
                check_fail(__FILE__, __LINE__, "draft %u decodes from %zu bytes", i, bytes);
        CHECK_I64(decode_cut(&drafts[i], drafts[i].bytes, true), 0);
    }
}

TEST(a_call_chain_cut_at_every_length)
{
    const uint64_t chain[] = {(uint64_t)PERF_CONTEXT_KERNEL, 1, 2, 3, 4};
    struct draft draft = sample(chain, 5, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 40);
    struct record record;
    for (size_t bytes = 8; bytes < draft.bytes; bytes += 8) {
        struct draft cut = draft;
        cut.bytes = bytes;
        set_size(&cut, bytes);
        CHECK_I64(decode(&record, &cut, true), -EBADMSG);
    }
}

TEST(times_of_records_too_short_to_have_one)
{
    const struct draft draft = sample(NULL, 0, PERF_SAMPLE_REGS_ABI_64, STACK_BYTES, 40);
    CHECK_U64(record_time_ns(draft.words, 24), 0);
    CHECK_U64(record_time_ns(draft.words, 32), 1234567);
    struct draft other = begin(PERF_RECORD_THROTTLE, 0);
    CHECK_U64(record_time_ns(other.words, 8), 0);
    end(&other);
    CHECK_U64(record_time_ns(other.words, 16), 0);
    CHECK_U64(record_time_ns(other.words, 24), 777);
}
