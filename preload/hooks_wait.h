/* Waits for children see the app's own alone. */
#ifndef SELFSAMPLE_PRELOAD_HOOKS_WAIT_H
#define SELFSAMPLE_PRELOAD_HOOKS_WAIT_H

/* Looks up the real functions. Once, in the constructor: later it might be a signal handler. */
void hooks_wait_prepare(void);

#endif
