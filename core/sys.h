/*
 * Raw system calls, for code that runs in the helper.
 *
 * The helper has no errno of its own that libc would know, and must not enter a libc function that
 * could take a lock or a cancellation point, so it asks the kernel directly. Every call returns
 * what the kernel returned: 0 or a count on success, -errno on failure. None is retried on EINTR.
 *
 * Thread safety: all of them keep no state.
 */
#ifndef SELFSAMPLE_CORE_SYS_H
#define SELFSAMPLE_CORE_SYS_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>

#include "arch.h"

#define sys0(number)          arch_syscall6((number), 0, 0, 0, 0, 0, 0)
#define sys1(number, a)       arch_syscall6((number), (long)(a), 0, 0, 0, 0, 0)
#define sys2(number, a, b)    arch_syscall6((number), (long)(a), (long)(b), 0, 0, 0, 0)
#define sys3(number, a, b, c) arch_syscall6((number), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define sys4(number, a, b, c, d)                                                                   \
    arch_syscall6((number), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)
#define sys5(number, a, b, c, d, e)                                                                \
    arch_syscall6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), 0)
#define sys6(number, a, b, c, d, e, f)                                                             \
    arch_syscall6((number), (long)(a), (long)(b), (long)(c), (long)(d), (long)(e), (long)(f))

static inline int sys_open(const char *path, int flags, unsigned mode)
{
    return (int)sys4(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, mode);
}

static inline int sys_openat(int directory_fd, const char *path, int flags, unsigned mode)
{
    return (int)sys4(SYS_openat, directory_fd, path, flags | O_CLOEXEC, mode);
}

static inline int sys_close(int fd)
{
    return (int)sys1(SYS_close, fd);
}

static inline long sys_read(int fd, void *buffer, size_t bytes)
{
    return sys3(SYS_read, fd, buffer, bytes);
}

static inline long sys_pread(int fd, void *buffer, size_t bytes, uint64_t offset)
{
    return sys4(SYS_pread64, fd, buffer, bytes, offset);
}

static inline long sys_write(int fd, const void *buffer, size_t bytes)
{
    return sys3(SYS_write, fd, buffer, bytes);
}

static inline int sys_fstat(int fd, struct stat *status)
{
    return (int)sys2(SYS_fstat, fd, status);
}

/* Returns the address, or a value for which sys_is_error() holds. */
static inline void *sys_mmap(void *address, size_t bytes, int protection, int flags, int fd,
                             uint64_t offset)
{
    return (void *)sys6(SYS_mmap, address, bytes, protection, flags, fd, offset);
}

static inline int sys_munmap(void *address, size_t bytes)
{
    return (int)sys2(SYS_munmap, address, bytes);
}

/* Bytes of a page, where the processor leaves a choice: the kernel takes no other address. */
static inline size_t sys_page_bytes(void)
{
    size_t bytes = ARCH_PAGE_BYTES_LEAST;
    while (bytes < ARCH_PAGE_BYTES_MOST && sys3(SYS_mincore, bytes, 0, NULL) == -EINVAL)
        bytes *= 2;
    return bytes;
}

/* The kernel returns -1 .. -4095 for errors, also where the result is a pointer. */
static inline int sys_is_error(const void *result)
{
    return (uintptr_t)result >= (uintptr_t)-4095;
}

/* Nanoseconds of a kernel clock; 0 where the clock cannot be read. */
static inline uint64_t sys_clock_ns(clockid_t clock)
{
    struct timespec now;
    if (sys2(SYS_clock_gettime, clock, &now) != 0)
        return 0;
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#endif
