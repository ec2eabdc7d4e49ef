/*
 * Which engine makes a session's samples: the kernel's perf events, or timers (timers.h) where
 * these are refused or not wanted. All that comes after is the same: a thread has a `struct event`,
 * and the records of its ring. What timers do not tell of, the helper finds out by looking:
 * `event_traits.by_timer` says that it has to.
 *
 * Thread safety: keeps no state. engine_choose runs in the app's threads, where a session begins.
 */
#ifndef SELFSAMPLE_CORE_ENGINE_H
#define SELFSAMPLE_CORE_ENGINE_H

#include "config.h"
#include "event.h"
#include "text.h"
#include "timers.h"

/* As the options say, and as the kernel grants. 0, or -errno: of perf's refusal where perf is
 * wanted, else of the timers'. */
int engine_choose(struct event_traits *traits, const struct config *config, struct timers *timers);

/*
 * An event of timers for thread TID, which does not count yet: no descriptor, a ring that stays
 * with the timer's slot, and counts that can be read from its samples alone. PERIOD_NS as wanted,
 * see the slot for what it is. 0 or -errno, as timers_open.
 */
int engine_open_timer(struct event *event, struct timers *timers, pid_t tid, uint64_t period_ns,
                      uint64_t random);

/* event_enable and event_close, for either engine's. */
int engine_enable(const struct event *event, struct timers *timers);

/* Was its thread kept from being sampled for a time, for want of room for a signal? */
bool engine_was_spared(const struct event *event);
void engine_close(struct event *event);

/* Is it still what its thread opened? A timer's ends with the session. */
bool engine_is_alive(const struct event *event);

/* The period of one sample: of RATE_HZ, or the shortest that the engine can do. */
uint64_t engine_period_ns(const struct event_traits *traits, unsigned rate_hz);

/* The highest rate that may be asked for, by the kernel's limit and by our own. */
unsigned engine_rate_limit_hz(void);

/* The rate that such a period makes, as it was asked for where that could be had. */
uint64_t engine_rate_hz(uint64_t period_ns);

/* "perf", or "timer" with the reason and with the command that would give more. */
void engine_describe(struct text *text, const struct event_traits *traits, int64_t paranoid);

#endif
