/* Tells which descriptors are the last ones. Runs in the helper; one system call. */
#include "descriptors.h"

#include <sys/resource.h>

#include "sys.h"

bool descriptor_is_spare(int fd)
{
    struct rlimit limit;
    if (sys4(SYS_prlimit64, 0, RLIMIT_NOFILE, NULL, &limit) != 0)
        return false;
    return (rlim_t)fd + DESCRIPTORS_SPARE >= limit.rlim_cur;
}
