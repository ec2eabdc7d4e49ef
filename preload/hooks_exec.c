/*
 * The hooks on the calls that execute programs: these inherit the caller's signal mask, which is
 * made what the app thinks it is, see hooks_signals.h.
 *
 * Runs in the app's threads, and in children of fork and vfork. Allocates nothing but on the stack,
 * leaves errno to the real functions.
 */
#include <errno.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../core/sys.h"
#include "hooks.h"
#include "hooks_signals.h"

/* The calling thread's timer, if it has one that runs: sends no signal, or sends them again. */
static void timer_hold(bool hold)
{
    if (__atomic_load_n(&session.timers.used, __ATOMIC_RELAXED) != 0 &&
        __atomic_load_n(&session.paused, __ATOMIC_RELAXED) == 0 && session_is_mine(&session))
        timers_hold(&session.timers, (pid_t)sys0(SYS_gettid), hold);
}

/* valgrind begins handlers while it makes ready for an exec; what is executed then has the mask of
 * the handler, all signals blocked. */
static bool exec_begin(void)
{
    session_note_exec(&session);
    timer_hold(true);
    return hooks_signals_make_true();
}

static void spawn_done(bool hides)
{
    if (hides)
        hooks_signals_undo();
}

static void exec_failed(bool hides)
{
    spawn_done(hides);
    timer_hold(false);
}

/* A function NAME of libc's, between BEGIN and DONE; MISSING is what to return where there is none.
 */
#define HOOK(type, missing, name, parameters, arguments, begin, done)                              \
    HOOK_EXPORT type name parameters                                                               \
    {                                                                                              \
        static type(*real) parameters;                                                             \
        if (HOOK_REAL(real, #name) == NULL) {                                                      \
            errno = ENOSYS;                                                                        \
            return missing;                                                                        \
        }                                                                                          \
        bool hides = begin();                                                                      \
        type result = real arguments;                                                              \
        done(hides);                                                                               \
        return result;                                                                             \
    }

#define STRINGS char *const

#define HOOK_EXEC(name, parameters, arguments)                                                     \
    HOOK(int, -1, name, parameters, arguments, exec_begin, exec_failed)
#define HOOK_SPAWN(type, missing, name, parameters, arguments)                                     \
    HOOK(type, missing, name, parameters, arguments, hooks_signals_make_true, spawn_done)

HOOK_EXEC(execve, (const char *path, STRINGS list[], STRINGS environment[]),
          (path, list, environment))
HOOK_EXEC(execv, (const char *path, STRINGS list[]), (path, list))
HOOK_EXEC(execvp, (const char *file, STRINGS list[]), (file, list))
HOOK_EXEC(execvpe, (const char *file, STRINGS list[], STRINGS environment[]),
          (file, list, environment))
HOOK_EXEC(fexecve, (int fd, STRINGS list[], STRINGS environment[]), (fd, list, environment))
HOOK_EXEC(execveat, (int fd, const char *path, STRINGS list[], STRINGS environment[], int flags),
          (fd, path, list, environment, flags))
HOOK_SPAWN(int, ENOSYS, posix_spawn,
           (pid_t *restrict pid, const char *restrict path,
            const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict attributes,
            STRINGS list[restrict], STRINGS environment[restrict]),
           (pid, path, actions, attributes, list, environment))
HOOK_SPAWN(int, ENOSYS, posix_spawnp,
           (pid_t *restrict pid, const char *restrict file,
            const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *restrict attributes,
            STRINGS list[restrict], STRINGS environment[restrict]),
           (pid, file, actions, attributes, list, environment))
HOOK_SPAWN(int, -1, system, (const char *command), (command))
HOOK_SPAWN(FILE *, NULL, popen, (const char *command, const char *type), (command, type))

/* How many arguments follow FIRST, without the NULL that ends them. */
static size_t count(const char *first, va_list list)
{
    size_t found = first != NULL;
    while (found > 0 && va_arg(list, const char *) != NULL)
        found++;
    return found;
}

/* Puts FIRST and what follows in LIST into ARRAY, with a NULL behind. */
static void collect(char **array, size_t arguments, const char *first, va_list list)
{
    array[0] = (char *)first;
    for (size_t i = 1; i < arguments; i++)
        array[i] = va_arg(list, char *);
    array[arguments] = NULL;
}

/* An exec with its arguments one by one, as one with an array; LAST is what stands behind them. */
#define HOOK_LISTED(name, last, call)                                                              \
    HOOK_EXPORT int name(const char *path, const char *first, ...)                                 \
    {                                                                                              \
        va_list list;                                                                              \
        va_start(list, first);                                                                     \
        size_t arguments = count(first, list);                                                     \
        va_end(list);                                                                              \
        char **array = __builtin_alloca((arguments + 1) * sizeof *array);                          \
        va_start(list, first);                                                                     \
        collect(array, arguments, first, list);                                                    \
        last;                                                                                      \
        va_end(list);                                                                              \
        return call;                                                                               \
    }

HOOK_LISTED(execl, (void)0, execv(path, array))
HOOK_LISTED(execlp, (void)0, execvp(path, array))
HOOK_LISTED(execle, (void)va_arg(list, char *);
            char *const *given = va_arg(list, char *const *), execve(path, array, given))
