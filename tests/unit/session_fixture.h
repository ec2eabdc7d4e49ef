/*
 * A session of this very process as session_start leaves it; nobody is its helper. For tests of
 * what threads and helper make of it.
 */
#ifndef SELFSAMPLE_TESTS_UNIT_SESSION_FIXTURE_H
#define SELFSAMPLE_TESTS_UNIT_SESSION_FIXTURE_H

#include <unistd.h>

#include "check.h"
#include "session.h"

/* The one that there is, made anew, with samples of PERIOD_NS. */
static inline struct session *session_made(uint64_t period_ns)
{
    static struct session session;
    memset(&session, 0, sizeof session);
    session.app_pid = getpid();
    session.period_ns = period_ns;
    session.config.rate_hz = (unsigned)(1000000000u / period_ns);
    session.helper.tid = session.helper.is_apart = 1;
    if (event_probe(&session.traits, false) != 0)
        SKIP("the kernel refuses perf_event_open");
    return &session;
}

#endif
