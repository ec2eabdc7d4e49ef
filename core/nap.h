/*
 * The helper's first moments. Many a process ends within a millisecond, and would have to wait for
 * whatever the helper is at. So before anything is set up the helper sleeps until there is a
 * sample, for a few milliseconds at most, and where the process has ended by then without one, or
 * become another program, there is nothing to set up at all.
 *
 * Runs in the helper, before session_run's first turn.
 */
#ifndef SELFSAMPLE_CORE_NAP_H
#define SELFSAMPLE_CORE_NAP_H

#include "session.h"

/* Sleeps until something is asked of the helper or a ring has a sample, but never longer than the
 * rings bear. Returns true where the session is over already, and there is nothing to write and
 * nobody to tell. */
bool nap_until_asked(struct session *session);

#endif
