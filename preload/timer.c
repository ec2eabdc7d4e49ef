/*
 * The handler of the timers' signal, and what becomes of signals of that number that others send.
 *
 * Runs in the app's threads, wherever these are: takes no lock, allocates nothing, calls nothing of
 * libc, leaves errno alone.
 *
 * On an alternate stack of the app's it takes some 500 bytes for a sample; it may take about as
 * much again where it opens a timer for another thread. The kernel's signal frame comes before
 * that: as large as AT_MINSIGSTKSZ of the auxiliary vector tells, more than 3 KB with AVX-512.
 * Threads whose alternate stacks have not that much get no signal (small_stacks.h).
 */
#include "hooks.h"
#include "hooks_signals.h"

void hooks_timer_signal(int signal, siginfo_t *info, void *context)
{
    /* A filter may kill for what it takes. */
    if (__atomic_load_n(&session.hushed, __ATOMIC_RELAXED) != 0 && info->si_code == SI_TIMER)
        return;
    if (timers_on_signal(&session.timers, info, context))
        session_open_asked(&session);
    else
        hooks_signals_foreign(signal, info, context);
}
