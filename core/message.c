/*
 * Lines for the user. Runs in the app's constructor and in the helper. Never waits for long, never
 * changes a descriptor, never buffers.
 */
#include "message.h"

#include <poll.h>
#include <stddef.h>
#include <string.h>
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

int message_write(int fd, const char *line)
{
    char newline[] = "\n";
    size_t length = strlen(line);
    if (length > MESSAGE_BYTES - 1)
        length = MESSAGE_BYTES - 1;
    int error = writable_wait(fd);
    if (error != 0)
        return error;
    const struct iovec parts[] = {{(char *)(uintptr_t)line, length}, {newline, 1}};
    long written = sys3(SYS_writev, fd, parts, 2);
    return written < 0 ? (int)written : 0;
}
