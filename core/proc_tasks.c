/* Lists a process's threads and descriptors. Runs in the helper; raw reads, one buffer on the
 * stack. */
#include "proc_tasks.h"

#include "sys.h"
#include "text.h"

/* linux_dirent64 of getdents64(2). */
struct directory_entry {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes; /* of this entry, padding included */
    uint8_t type;
    char name[]; /* NUL-terminated */
};

/* The number that NAME is, 0 where it is none. */
static pid_t number_of(const char *name, size_t bytes_max)
{
    pid_t value = 0;
    for (size_t i = 0; i < bytes_max; i++) {
        if (name[i] == '\0')
            return value;
        if (name[i] < '0' || name[i] > '9' || value > (1 << 26))
            return 0;
        value = value * 10 + (name[i] - '0');
    }
    return 0;
}

void proc_tasks_parse(const void *entries, size_t bytes, void (*each)(void *context, pid_t tid),
                      void *context)
{
    const size_t name_offset = offsetof(struct directory_entry, name);
    for (size_t at = 0; bytes - at > name_offset;) {
        const struct directory_entry *entry = (const void *)((const char *)entries + at);
        if (entry->bytes <= name_offset || entry->bytes > bytes - at)
            return;
        pid_t tid = number_of(entry->name, entry->bytes - name_offset);
        if (tid != 0)
            each(context, tid);
        at += entry->bytes;
    }
}

void proc_path(char *path, pid_t pid, const char *file)
{
    struct text text = text_over(path, PROC_PATH_BYTES);
    text_put(&text, "/proc/");
    text_put_i64(&text, pid);
    text_put(&text, file);
}

void proc_task_path(char *path, pid_t pid, pid_t tid, const char *file)
{
    struct text text = text_over(path, PROC_PATH_BYTES);
    text_put(&text, "/proc/");
    text_put_i64(&text, pid);
    text_put(&text, "/task/");
    text_put_i64(&text, tid);
    text_put(&text, file);
}

static int numbers_read(const char *path, void (*each)(void *context, int number), void *context)
{
    char buffer[4096] __attribute__((aligned(8)));
    int fd = sys_open(path, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0)
        return fd;
    long got;
    while ((got = sys3(SYS_getdents64, fd, buffer, sizeof buffer)) > 0)
        proc_tasks_parse(buffer, (size_t)got, each, context);
    sys_close(fd);
    return (int)got;
}

int proc_tasks_read(pid_t pid, void (*each)(void *context, pid_t tid), void *context)
{
    char path[PROC_PATH_BYTES];
    proc_path(path, pid, "/task");
    return numbers_read(path, each, context);
}

int proc_descriptors_read(pid_t pid, void (*each)(void *context, int fd), void *context)
{
    char path[PROC_PATH_BYTES];
    proc_path(path, pid, "/fd");
    return numbers_read(path, each, context);
}

int proc_own_descriptors_read(void (*each)(void *context, int fd), void *context)
{
    return numbers_read("/proc/thread-self/fd", each, context);
}
