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

/* A function behind a hook, and where its address is kept. */
typedef void *__attribute__((may_alias)) hook_address;
struct hook_function {
    const char *name;
    hook_address *address;
};

/*
 * The real function NAME, looked up at its first use and kept in POINTER, a static variable. Two
 * threads may look it up at once; they find the same. NULL: there is none.
 *
 * The linker of libc waits with that for whoever is loading a library: for a thread, say, that is
 * at a constructor, which may wait for this one. So hooks_find_all looks up all that anybody names
 * here, while there is one thread alone.
 */
#define HOOK_REAL(pointer, name)                                                                   \
    ({                                                                                             \
        static const struct hook_function listed                                                   \
            __attribute__((section("hook_functions"), used)) = {name, (hook_address *)&(pointer)}; \
        __typeof__(pointer) known = __atomic_load_n(&(pointer), __ATOMIC_RELAXED);                 \
        known != NULL ? known : (__typeof__(pointer))hook_find(&listed);                           \
    })

/* Looks it up, unless that has been done. */
void *hook_find(const struct hook_function *function);

/* Before the first thread is made. */
void hooks_find_all(void);

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
