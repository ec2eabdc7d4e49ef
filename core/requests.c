/* What is asked of a helper that is a thread. Runs in the helper. Never waits, never complains. */
#include "requests.h"

#include "descriptors.h"
#include "sys.h"

void requests_open(struct requests *requests, const struct helper *helper)
{
    *requests = (struct requests){.fd = -1};
    if (helper->kind == HELPER_THREAD)
        requests->fd = descriptor_offer(REQUESTS_NAME, REQUESTS_FD);
    if (requests->fd >= 0)
        sys4(SYS_pwrite64, requests->fd, &requests->taken, sizeof requests->taken, 0);
}

void requests_take(struct requests *requests, struct helper *helper)
{
    struct requests_asked asked, *taken = &requests->taken;
    if (requests->fd < 0 || sys_pread(requests->fd, &asked, sizeof asked, 0) != (long)sizeof asked)
        return;
    __atomic_add_fetch(&helper->snapshots_wanted, asked.snapshots - taken->snapshots,
                       __ATOMIC_RELAXED);
    __atomic_add_fetch(&helper->looks_wanted, asked.looks - taken->looks, __ATOMIC_RELAXED);
    if (asked.pause != taken->pause)
        __atomic_store_n(&helper->pause_wanted, asked.pause & 1, __ATOMIC_RELAXED);
    *taken = asked;
}
