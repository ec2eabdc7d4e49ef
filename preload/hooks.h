/*
 * What the library puts between the app and libc.
 *
 * Hooks may be called before the constructor (by the constructor of another library), in a forked
 * child, in a vfork child, in any thread. Outside of the session's process they do nothing of their
 * own.
 */
#ifndef SELFSAMPLE_PRELOAD_HOOKS_H
#define SELFSAMPLE_PRELOAD_HOOKS_H

#include <errno.h>

#include "../core/session.h"
#include "next_function.h"

#define HOOK_EXPORT __attribute__((visibility("default")))

/*
 * The real function NAME, looked up at its first use, which may come before our constructor, and
 * kept in POINTER, a static variable. Two threads may look it up at once; they find the same. NULL:
 * there is none; then the hook fails.
 */
#define HOOK_REAL(pointer, name)                                                                   \
    ({                                                                                             \
        __typeof__(pointer) known = __atomic_load_n(&(pointer), __ATOMIC_RELAXED);                 \
        if (__builtin_expect(known == NULL, 0)) {                                                  \
            known = (__typeof__(pointer))next_function(name);                                      \
            __atomic_store_n(&(pointer), known, __ATOMIC_RELAXED);                                 \
        }                                                                                          \
        known;                                                                                     \
    })

/* What a hook of the usual kind returns that has nothing behind it. */
static inline int hook_refuse(void)
{
    errno = ENOSYS;
    return -1;
}

/* What the hook on syscall, an assembler's, goes to. */
extern long (*hooks_real_syscall)(long number, ...);
long (*hooks_find_syscall(void))(long number, ...);
long hooks_syscall_seccomp(long number, long operation, long flags, long filter);
long hooks_syscall_prctl(long number, long option, unsigned long a, unsigned long b,
                         unsigned long c, unsigned long d);

/* Prepares what threads tell at their end. Once, in the constructor. */
void hooks_prepare(void);

/* The handler of timers' signals. */
void hooks_timer_signal(int signal, siginfo_t *info, void *context);

/* The one session of this process. */
extern struct session session;

#endif
