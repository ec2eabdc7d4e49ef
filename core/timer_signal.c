/* Chooses the signal that timers send. Runs in the app's threads. */
#include "timer_signal.h"

/* Real-time signals from the top: programs begin with the first. Last of all one that neither the
 * kernel nor anybody else sends. */
#define SIGNAL_FIRST 63
#define SIGNAL_LAST  36
#define SIGNAL_SPARE SIGSTKFLT

/* Is SIGNAL without a handler, or ours already? */
static bool signal_is_free(kernel_signal_handler *handler, int signal)
{
    struct kernel_sigaction action;
    return kernel_sigaction_get(signal, &action) == 0 &&
           (action.handler == KERNEL_SIGNAL_DEFAULT || action.handler == handler);
}

/* The first real-time signal that is free and not among EXCEPT; 0: there is none. */
static int signal_find(kernel_signal_handler *handler, uint64_t except)
{
    for (int signal = SIGNAL_FIRST; signal >= SIGNAL_LAST; signal--)
        if ((except & kernel_signal_bit(signal)) == 0 && signal_is_free(handler, signal))
            return signal;
    return 0;
}

int timer_signal_choose(kernel_signal_handler *handler, int used)
{
    uint64_t blocked = 0, except = used != 0 ? kernel_signal_bit(used) : 0;
    sys4(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &blocked, sizeof blocked);
    int signal = signal_find(handler, blocked | except);
    if (signal == 0 && used != SIGNAL_SPARE && signal_is_free(handler, SIGNAL_SPARE))
        signal = SIGNAL_SPARE;
    return signal != 0 ? signal : signal_find(handler, except);
}

/* All signals are blocked while the handler runs: a handler of the app's might leave by longjmp. */
int timer_signal_take(kernel_signal_handler *handler, int signal)
{
    return kernel_sigaction_set(signal, handler, SA_RESTART | SA_ONSTACK, ~0ull);
}

bool timer_signal_is_taken(kernel_signal_handler *handler, int signal)
{
    struct kernel_sigaction action;
    return kernel_sigaction_get(signal, &action) == 0 && action.handler != handler;
}
