/*
 * The hooks on `_exit` and `_Exit`, which run no handlers: clocks are noted before the process may
 * be reaped.
 *
 * Runs in the app's threads, in signal handlers, and in children of fork and vfork. Allocates
 * nothing, takes no lock; then the real function ends the process.
 */
#include <stdlib.h>
#include <unistd.h>

#include "../core/first_clock.h"
#include "../core/kernel_time.h"
#include "../core/sys.h"
#include "hooks.h"

typedef void exit_function(int);

static _Noreturn void leave(exit_function *real, int status)
{
    if (kernel_time_is_unseen(&session.traits) && session_is_mine(&session))
        first_clock_note_exit(&session.first_clock);
    if (real != NULL)
        real(status);
    for (;;)
        sys1(SYS_exit_group, status);
}

HOOK_EXPORT _Noreturn void _exit(int status)
{
    static exit_function *real;
    leave(HOOK_REAL(real, "_exit"), status);
}

HOOK_EXPORT _Noreturn void _Exit(int status)
{
    static exit_function *real;
    leave(HOOK_REAL(real, "_Exit"), status);
}
