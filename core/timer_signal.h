/*
 * The signal that timers send: one that nobody uses. HANDLER is ours.
 *
 * Runs in the app's threads. Keeps no state; no libc, errno stays as it is.
 */
#ifndef SELFSAMPLE_CORE_TIMER_SIGNAL_H
#define SELFSAMPLE_CORE_TIMER_SIGNAL_H

#include <stdbool.h>

#include "kernel_sigaction.h"

/* Another than USED; 0: there is none. One that is blocked may be waited for, so that is the last
 * choice. */
int timer_signal_choose(kernel_signal_handler *handler, int used);

/* Installs the handler for SIGNAL. 0 or -errno. */
int timer_signal_take(kernel_signal_handler *handler, int signal);

/* Is the handler of SIGNAL another by now? A runtime that sets handlers by raw system calls, as
 * Go's does, has come to no hook. */
bool timer_signal_is_taken(kernel_signal_handler *handler, int signal);

#endif
