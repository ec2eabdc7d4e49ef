/* Writes records into a ring. Runs in the app's threads and their signal handlers; never faults on
 * a stack. */
#include "ring_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/uio.h>

#include "record.h"
#include "sys.h"

#define NAME_BYTES 16u

/* The longest that a record's size field can tell, a multiple of 8. */
#define RECORD_BYTES_LONGEST 65528u

/* What ends every record but a sample, by its event's attributes. */
struct sample_id {
    uint32_t pid, tid;
    uint64_t time_ns;
};

struct lost_record {
    struct perf_event_header header;
    uint64_t event_id, lost;
    struct sample_id id;
};

struct name_record {
    struct perf_event_header header;
    uint32_t pid, tid;
    char name[NAME_BYTES];
    struct sample_id id;
};

struct end_record {
    struct perf_event_header header;
    uint32_t pid, parent_pid, tid, parent_tid;
    uint64_t time_ns;
    struct sample_id id;
};

/* A sample up to its registers. */
struct sample_start {
    struct perf_event_header header;
    uint64_t ip;
    uint32_t pid, tid;
    uint64_t time_ns, count_ns;
};

struct ring_writer ring_writer_over(void *mapping, size_t mapping_bytes, pid_t pid, pid_t tid)
{
    struct perf_event_mmap_page *control = mapping;
    control->data_tail = control->data_head;
    return (struct ring_writer){
        .control = mapping,
        .data = (uint8_t *)mapping + RING_WRITER_CONTROL_BYTES,
        .size = mapping_bytes - RING_WRITER_CONTROL_BYTES,
        .pid = pid,
        .tid = tid,
    };
}

uint32_t ring_writer_stack_bytes_max(void)
{
    return (RECORD_BYTES_LONGEST - RECORD_SAMPLE_FIXED_BYTES - 8) & ~7u;
}

static uint64_t head_of(const struct ring_writer *writer)
{
    const struct perf_event_mmap_page *control = writer->control;
    return control->data_head;
}

static uint64_t room_of(const struct ring_writer *writer)
{
    const struct perf_event_mmap_page *control = writer->control;
    uint64_t used = control->data_head - __atomic_load_n(&control->data_tail, __ATOMIC_ACQUIRE);
    return used < writer->size ? writer->size - used : 0;
}

static void head_set(struct ring_writer *writer, uint64_t head)
{
    struct perf_event_mmap_page *control = writer->control;
    __atomic_store_n(&control->data_head, head, __ATOMIC_RELEASE);
}

/* Copies to POSITION, behind the head; returns the position behind it. */
static uint64_t copy_in(struct ring_writer *writer, uint64_t position, const void *from,
                        size_t bytes)
{
    size_t offset = position & (writer->size - 1);
    size_t first = writer->size - offset < bytes ? writer->size - offset : bytes;
    __builtin_memcpy(writer->data + offset, from, first);
    __builtin_memcpy(writer->data, (const uint8_t *)from + first, bytes - first);
    return position + bytes;
}

/* Puts one whole RECORD, if there is room. */
static bool put_whole(struct ring_writer *writer, const void *record, size_t bytes)
{
    if (room_of(writer) < bytes)
        return false;
    head_set(writer, copy_in(writer, head_of(writer), record, bytes));
    return true;
}

static struct sample_id id_of(const struct ring_writer *writer, uint64_t time_ns)
{
    return (struct sample_id){(uint32_t)writer->pid, (uint32_t)writer->tid, time_ns};
}

/* Before a record of BYTES: both, or neither. */
static bool tell_lost(struct ring_writer *writer, uint64_t time_ns, size_t bytes)
{
    if (writer->lost == 0)
        return room_of(writer) >= bytes;
    if (room_of(writer) < sizeof(struct lost_record) + bytes)
        return false;
    const struct lost_record record = {
        .header = {.type = PERF_RECORD_LOST, .size = sizeof record},
        .lost = writer->lost,
        .id = id_of(writer, time_ns),
    };
    writer->lost = 0;
    return put_whole(writer, &record, sizeof record);
}

/* As below, where a filter (older Docker's, say) refuses the call: through a descriptor, which is
 * there for these few calls alone. */
static long stack_copy_by_file(const struct iovec to[2], uint64_t address)
{
    int fd = sys_open("/proc/thread-self/mem", O_RDONLY, 0);
    if (fd < 0)
        return fd;
    long got = sys_pread(fd, to[0].iov_base, to[0].iov_len, address);
    if (got == (long)to[0].iov_len && to[1].iov_len > 0) {
        long more = sys_pread(fd, to[1].iov_base, to[1].iov_len, address + (uint64_t)got);
        got += more > 0 ? more : 0;
    }
    sys_close(fd);
    return got;
}

/* Has the kernel copy up to BYTES of the stack at ADDRESS to POSITION. Returns how many it could,
 * in eights. */
static size_t stack_copy(struct ring_writer *writer, uint64_t position, uint64_t address,
                         size_t bytes)
{
    size_t offset = position & (writer->size - 1);
    size_t first = writer->size - offset < bytes ? writer->size - offset : bytes;
    const struct iovec to[2] = {{writer->data + offset, first}, {writer->data, bytes - first}};
    const struct iovec from = {(void *)(uintptr_t)address, bytes};
    /* By the thread: after main's pthread_exit the process's own number has no memory. */
    long got = sys6(SYS_process_vm_readv, writer->tid, to, 2, &from, 1, 0);
    if (got < 0 && got != -EFAULT)
        got = stack_copy_by_file(to, address);
    return got > 0 ? (size_t)got & ~(size_t)7 : 0;
}

bool ring_writer_put_sample(struct ring_writer *writer, const struct ring_writer_sample *sample)
{
    const uint64_t no_chain = 0, abi = PERF_SAMPLE_REGS_ABI_64;
    size_t fixed_bytes = RECORD_SAMPLE_FIXED_BYTES + (writer->has_callchain ? sizeof no_chain : 0);
    if (!tell_lost(writer, sample->time_ns, fixed_bytes + sample->stack_bytes)) {
        writer->lost++;
        return false;
    }
    /* The stack first: how much of it there is decides how long the record is. */
    uint64_t head = head_of(writer);
    uint64_t stack_at = head + fixed_bytes - 8; /* dyn_size comes behind it */
    size_t got = stack_copy(writer, stack_at, sample->stack_pointer, sample->stack_bytes);
    const struct sample_start start = {
        .header = {.type = PERF_RECORD_SAMPLE,
                   .misc = PERF_RECORD_MISC_USER,
                   .size = (uint16_t)(fixed_bytes + got - (got == 0 ? 8 : 0))},
        .ip = sample->registers[ARCH_PERF_INDEX_IP],
        .pid = (uint32_t)writer->pid,
        .tid = (uint32_t)writer->tid,
        .time_ns = sample->time_ns,
        .count_ns = sample->count_ns,
    };
    uint64_t at = copy_in(writer, head, &start, sizeof start);
    if (writer->has_callchain)
        at = copy_in(writer, at, &no_chain, sizeof no_chain);
    at = copy_in(writer, at, &abi, sizeof abi);
    at = copy_in(writer, at, sample->registers, 8 * ARCH_PERF_REGISTER_COUNT);
    const uint64_t stack_bytes = got;
    at = copy_in(writer, at, &stack_bytes, sizeof stack_bytes) + got;
    if (got != 0)
        at = copy_in(writer, at, &stack_bytes, sizeof stack_bytes);
    head_set(writer, at);
    return true;
}

bool ring_writer_put_name(struct ring_writer *writer, const char *name, uint64_t time_ns)
{
    struct name_record record = {
        .header = {.type = PERF_RECORD_COMM, .size = sizeof record},
        .pid = (uint32_t)writer->pid,
        .tid = (uint32_t)writer->tid,
        .id = id_of(writer, time_ns),
    };
    __builtin_memcpy(record.name, name, NAME_BYTES - 1);
    return put_whole(writer, &record, sizeof record);
}

bool ring_writer_put_end(struct ring_writer *writer, uint64_t time_ns)
{
    const struct end_record record = {
        .header = {.type = PERF_RECORD_EXIT, .size = sizeof record},
        .pid = (uint32_t)writer->pid,
        .parent_pid = (uint32_t)writer->pid,
        .tid = (uint32_t)writer->tid,
        .time_ns = time_ns,
        .id = id_of(writer, time_ns),
    };
    return tell_lost(writer, time_ns, sizeof record) && put_whole(writer, &record, sizeof record);
}
