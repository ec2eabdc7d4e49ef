/*
 * What a profile lacks, and why, in lines for the user.
 *
 * Each function puts its lines behind those that are there, or nothing where nothing is lacking.
 *
 * Thread safety: reads what the app's threads write, by atomic loads.
 */
#ifndef SELFSAMPLE_CORE_SHORTFALL_H
#define SELFSAMPLE_CORE_SHORTFALL_H

#include "labels.h"
#include "perf_map.h"
#include "session.h"
#include "text.h"

/* Labels beyond what there is room for, and changes that came too fast. */
void shortfall_put_labels(struct text *lines, const struct labels *labels);

/* Timers without a signal: Go's runtime handles every one, say. */
void shortfall_put_signals(struct text *lines, const struct session *session);

/* Why code made at run time goes without its names. */
void shortfall_put_code_names(struct text *lines, const struct perf_map *map);

#endif
