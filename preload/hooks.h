/*
 * What the library puts between the app and libc.
 *
 * Hooks may be called before the constructor (by the constructor of another library), in a forked
 * child, in a vfork child, in any thread. Outside of the session's process they do nothing of their
 * own.
 */
#ifndef SELFSAMPLE_PRELOAD_HOOKS_H
#define SELFSAMPLE_PRELOAD_HOOKS_H

#include "../core/session.h"

#define HOOK_EXPORT __attribute__((visibility("default")))

/* The real function NAME, looked up at its first use and kept in POINTER. Two threads may look it
 * up at once; they find the same. NULL: there is none. */
#define HOOK_REAL(pointer, name)                                                                   \
    ({                                                                                             \
        __typeof__(pointer) found = __atomic_load_n(&(pointer), __ATOMIC_RELAXED);                 \
        if (found == NULL) {                                                                       \
            found = (__typeof__(pointer))dlsym(RTLD_NEXT, name);                                   \
            __atomic_store_n(&(pointer), found, __ATOMIC_RELAXED);                                 \
        }                                                                                          \
        found;                                                                                     \
    })

/* Looks up the functions behind prctl and syscall. Once, in the constructor: later it might be a
 * thread under a filter that has to. */
void hooks_seccomp_prepare(void);

/* What the hook on syscall, an assembler's, goes to. */
extern long (*hooks_real_syscall)(long number, ...);
long (*hooks_find_syscall(void))(long number, ...);
long hooks_syscall_seccomp(long number, long operation, long flags, long filter);

/* Prepares what threads tell at their end. Once, in the constructor. */
void hooks_prepare(void);

/* The handler of timers' signals. */
void hooks_timer_signal(int signal, siginfo_t *info, void *context);

/* The one session of this process. */
extern struct session session;

#endif
