/*
 * What the app sees of signals while timers send one of ours: all is as without us.
 *
 * In each thread our signal is not blocked, or no sample could be taken; what the app thinks of it
 * is kept beside. While no timer is used, the hooks do nothing of their own.
 *
 * Thread safety: the calling thread's own state; any thread, in signal handlers too.
 */
#ifndef SELFSAMPLE_PRELOAD_HOOKS_SIGNALS_H
#define SELFSAMPLE_PRELOAD_HOOKS_SIGNALS_H

#include <stdbool.h>

/* Does the app think that the calling thread has our signal blocked? New threads inherit that. */
bool hooks_signals_blocked(void);

/* In a new thread, whose maker had it so, and in one that starts a session (false). */
void hooks_signals_begin(bool blocked);

/* Our signal came, and from somebody else. Call in its handler, with what that was given. */
void hooks_signals_foreign(int signal, void *info, void *context);

/*
 * Makes the calling thread's mask what the app thinks it is, for a program that is about to be
 * executed: masks are inherited. Returns whether hooks_signals_undo has to be called afterwards.
 */
bool hooks_signals_make_true(void);
void hooks_signals_undo(void);

#endif
