/*
 * Lines for the user. Runs in the app's threads (constructor, forks, exit) and in the helper. Never
 * waits for long, never changes a descriptor, never buffers.
 */
#include "message.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "sys.h"

static int writable_wait(int fd)
{
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    struct timespec limit = {0, MESSAGE_WAIT_MS * 1000000l};
    long count = sys5(SYS_ppoll, &ready, 1, &limit, NULL, 0);
    if (count < 0)
        return (int)count;
    if (count == 0)
        return -EAGAIN;
    if (ready.revents & POLLNVAL)
        return -EBADF;
    return ready.revents & (POLLERR | POLLHUP) ? -EPIPE : 0;
}

/* Is FD a file that is as long as the app's files may be, or longer? */
static bool is_at_size_limit(int fd)
{
    struct rlimit limit;
    struct stat status;
    if (sys4(SYS_prlimit64, 0, RLIMIT_FSIZE, NULL, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY)
        return false;
    if (sys_fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
        return false;
    long at = sys3(SYS_lseek, fd, 0, SEEK_CUR);
    return (rlim_t)status.st_size >= limit.rlim_cur || (at > 0 && (rlim_t)at >= limit.rlim_cur);
}

int message_write(int fd, const char *line)
{
    char newline[] = "\n";
    size_t length = strlen(line);
    if (length > MESSAGE_BYTES - 1)
        length = MESSAGE_BYTES - 1;
    int error = writable_wait(fd);
    if (error != 0)
        return error;
    if (is_at_size_limit(fd))
        return -EFBIG;
    const struct iovec parts[] = {{(char *)(uintptr_t)line, length}, {newline, 1}};
    long written = sys3(SYS_writev, fd, parts, 2);
    return written < 0 ? (int)written : 0;
}

struct message_place message_place_now(void)
{
    struct stat status;
    if (sys_fstat(2, &status) != 0)
        return (struct message_place){.is_known = false};
    return (struct message_place){true, status.st_dev, status.st_ino};
}

bool message_place_holds(const struct message_place *place)
{
    struct message_place now = message_place_now();
    return place->is_known && now.is_known && now.device == place->device &&
           now.inode == place->inode;
}

int message_tell(const struct message_place *place, const char *line)
{
    return message_place_holds(place) ? message_write(2, line) : -EBADF;
}
