/*
 * Helpers of programs that this process was before an exec. Each is a child that the program does
 * not know of, and writes its profile while the program starts. The exec has made SIGCHLD of the
 * signal that its end sends, whatever was agreed on (do_notify_parent in the kernel), and nobody
 * but us takes its entry out of the process table.
 *
 * Runs in the app's thread. No libc, no allocation; errno stays.
 */
#ifndef SELFSAMPLE_CORE_FORMER_H
#define SELFSAMPLE_CORE_FORMER_H

/* Takes leave of those that have ended. Never waits. */
void former_reap(void);

/*
 * Waits until those that live have ended, but no longer than 100 ms, and takes leave of all. Before
 * the program has a handler for SIGCHLD: theirs has no effect then, and where the program has been
 * started with that signal blocked, it is taken back.
 */
void former_await(void);

#endif
