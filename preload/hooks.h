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

/* Prepares what threads tell at their end. Once, in the constructor. */
void hooks_prepare(void);

/* The one session of this process. */
extern struct session session;

#endif
