/* Maps anonymous memory. Runs in the app's threads and in the helper; never waits. */
#include "mapping.h"

#include <stdbool.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "sys.h"

static void *map(size_t bytes, int kind)
{
    return sys_mmap(NULL, bytes, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                    0);
}

void *mapping_late_table(void **place, size_t bytes)
{
    void *table = __atomic_load_n(place, __ATOMIC_ACQUIRE);
    if (table != NULL)
        return table;
    void *made = map(bytes, MAP_PRIVATE);
    if (sys_is_error(made))
        return NULL;
    if (__atomic_compare_exchange_n(place, &table, made, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return made;
    sys_munmap(made, bytes);
    return table;
}

void *mapping_not_for_forks(size_t bytes)
{
    struct rlimit limit;
    bool data_is_limited =
        sys4(SYS_prlimit64, 0, RLIMIT_DATA, NULL, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY;
    return map(bytes, data_is_limited ? MAP_SHARED : MAP_PRIVATE);
}
