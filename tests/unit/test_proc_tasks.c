/* Threads out of /proc, and directory entries of every length. */
#include "check.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <stdlib.h>
#include <unistd.h>

#include "proc_tasks.h"

struct seen {
    pid_t tids[64];
    unsigned count;
};

static void note(void *context, pid_t tid)
{
    struct seen *seen = context;
    if (seen->count < 64)
        seen->tids[seen->count] = tid;
    seen->count++;
}

static bool has(const struct seen *seen, pid_t tid)
{
    for (unsigned i = 0; i < seen->count; i++)
        if (seen->tids[i] == tid)
            return true;
    return false;
}

/* An entry as the kernel lays it out: 19 bytes, the name with its NUL, padded to 8. */
static size_t put_entry(uint8_t *to, const char *name)
{
    size_t bytes = (19 + strlen(name) + 1 + 7) & ~(size_t)7;
    memset(to, 0, bytes);
    to[16] = (uint8_t)bytes;
    memcpy(to + 19, name, strlen(name));
    return bytes;
}

TEST(the_last_entry_counts_whatever_its_length)
{
    static const char *const names[] = {"1", "22", "333", "4444", "55555", "4194304"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        uint8_t buffer[256] __attribute__((aligned(8)));
        size_t bytes = put_entry(buffer, ".");
        bytes += put_entry(buffer + bytes, "..");
        bytes += put_entry(buffer + bytes, names[i]);
        struct seen seen = {.count = 0};
        proc_tasks_parse(buffer, bytes, note, &seen);
        CHECK_U64(seen.count, 1);
        CHECK_U64((uint64_t)seen.tids[0], (uint64_t)atoi(names[i]));
    }
}

TEST(the_longest_names_of_files_fit)
{
    char path[PROC_PATH_BYTES];
    proc_path(path, 1, "/comm");
    CHECK_STR(path, "/proc/1/comm");
    proc_task_path(path, INT32_MAX, INT32_MIN, "/fifteen_letters");
    CHECK_STR(path, "/proc/2147483647/task/-2147483648/fifteen_letters");
}

TEST(damaged_entries_end_the_list)
{
    uint8_t buffer[64] __attribute__((aligned(8)));
    size_t bytes = put_entry(buffer, "7");
    struct seen seen = {.count = 0};
    buffer[16] = 0;
    proc_tasks_parse(buffer, bytes, note, &seen);
    buffer[16] = 200;
    proc_tasks_parse(buffer, bytes, note, &seen);
    put_entry(buffer, "7x");
    proc_tasks_parse(buffer, bytes, note, &seen);
    CHECK_U64(seen.count, 0);
}

static pid_t other_tid;
static pthread_barrier_t barrier;

static void *other(void *unused)
{
    (void)unused;
    other_tid = (pid_t)syscall(SYS_gettid);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

TEST(all_threads_of_this_process_are_told)
{
    pthread_t thread;
    struct seen seen = {.count = 0};
    pthread_barrier_init(&barrier, NULL, 2);
    REQUIRE(pthread_create(&thread, NULL, other, NULL) == 0);
    pthread_barrier_wait(&barrier);
    CHECK(proc_tasks_read(getpid(), note, &seen) == 0);
    CHECK(has(&seen, getpid()));
    CHECK(has(&seen, other_tid));
    pthread_barrier_wait(&barrier);
    pthread_join(thread, NULL);
}

TEST(open_descriptors_are_told)
{
    struct seen seen = {.count = 0};
    int fd = fcntl(1, F_DUPFD, 500); /* the listing itself takes a low one */
    REQUIRE(fd > 0);
    CHECK(proc_descriptors_read(getpid(), note, &seen) == 0);
    CHECK(has(&seen, fd));
    close(fd);
    seen.count = 0;
    CHECK(proc_descriptors_read(getpid(), note, &seen) == 0);
    CHECK(!has(&seen, fd));
}

TEST(no_such_process_is_an_error)
{
    struct seen seen = {.count = 0};
    CHECK(proc_tasks_read(1 << 25, note, &seen) < 0);
    CHECK_U64(seen.count, 0);
}
