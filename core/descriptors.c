/* The helper's first and last descriptors. Runs in the helper; some system calls. */
#include "descriptors.h"

#include <sys/resource.h>

#include "sys.h"

#define MEMFD_CLOEXEC 1u /* MFD_CLOEXEC */

static bool is_among_last(int fd, unsigned count)
{
    struct rlimit limit;
    if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0)
        return false;
    return (rlim_t)fd + count >= limit.rlim_cur;
}

bool descriptor_is_spare(int fd)
{
    return is_among_last(fd, DESCRIPTORS_SPARE);
}

bool descriptor_is_for_files(int fd)
{
    return is_among_last(fd, DESCRIPTORS_SPARE + DESCRIPTORS_FOR_FILES);
}

int descriptor_move(int fd, int number)
{
    if (fd < 0 || fd == number)
        return fd;
    int there = (int)sys3(SYS_dup3, fd, number, O_CLOEXEC);
    sys_close(fd);
    return there < 0 ? -1 : number;
}

int descriptor_offer(const char *name, int number)
{
    int fd = (int)sys2(SYS_memfd_create, name, MEMFD_CLOEXEC);
    if (fd >= 0)
        sys2(SYS_fchmod, fd, 0600);
    return descriptor_move(fd, number) < 0 ? -1 : number;
}
