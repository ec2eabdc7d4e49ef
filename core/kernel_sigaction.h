/*
 * What a signal does, as the kernel has it: no libc between, which hides some signals and adds a
 * return path of its own.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_KERNEL_SIGACTION_H
#define SELFSAMPLE_CORE_KERNEL_SIGACTION_H

#include <signal.h>
#include <stdint.h>

#include "sys.h"

typedef void kernel_signal_handler(int signal, siginfo_t *info, void *context);

#define KERNEL_SIGNAL_DEFAULT ((kernel_signal_handler *)0) /* the kernel's SIG_DFL */
#define KERNEL_SIGNAL_IGNORE  ((kernel_signal_handler *)1) /* and SIG_IGN */

/* The kernel's struct sigaction, with a set of all 64 signals. */
struct kernel_sigaction {
    kernel_signal_handler *handler;
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask; /* blocked while the handler runs */
};

static inline uint64_t kernel_signal_bit(int signal)
{
    return 1ull << (signal - 1);
}

/* What SIGNAL does. 0 or -errno. */
static inline int kernel_sigaction_get(int signal, struct kernel_sigaction *action)
{
    return (int)sys4(SYS_rt_sigaction, signal, NULL, action, sizeof action->mask);
}

/* HANDLER for SIGNAL, with FLAGS beside those that it needs; or default or ignore, with neither
 * flags nor mask. 0 or -errno. */
static inline int kernel_sigaction_set(int signal, kernel_signal_handler *handler,
                                       unsigned long flags, uint64_t mask)
{
    struct kernel_sigaction action = {.handler = handler};
    if (handler != KERNEL_SIGNAL_DEFAULT && handler != KERNEL_SIGNAL_IGNORE)
        action = (struct kernel_sigaction){.handler = handler,
                                           .flags = flags | SA_SIGINFO | ARCH_SA_RESTORER,
                                           .restorer = arch_signal_return,
                                           .mask = mask};
    return (int)sys4(SYS_rt_sigaction, signal, &action, NULL, sizeof action.mask);
}

#endif
