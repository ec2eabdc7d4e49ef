/*
 * The options, as the environment gives them: SELFSAMPLE_OUT, SELFSAMPLE_RATE and so on. A wrong
 * name or value costs one line to the user, never the run: the default stands.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_CONFIG_H
#define SELFSAMPLE_CORE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>

#include "outpath.h"

/* Above this rate the sampling itself costs the app more than half of its time, and the kernel does
 * not limit clock events by itself. */
#define CONFIG_RATE_HZ_MAX 20000u

#define CONFIG_PREFIX         "SELFSAMPLE_"
#define CONFIG_OUT_BYTES      1024u
#define CONFIG_ONLY_BYTES     512u
#define CONFIG_REPORT_BYTES   256u
#define CONFIG_RATE_HZ        999u /* not 1000: in step with nothing that beats in round numbers */
#define CONFIG_STACK_MIN      1024u
#define CONFIG_STACK_MAX      65528u /* the largest multiple of 8 that perf_event_open takes */
#define CONFIG_CHECKPOINT_MAX 86400u

enum config_engine { CONFIG_ENGINE_AUTO, CONFIG_ENGINE_PERF, CONFIG_ENGINE_TIMER };
enum config_kernel { CONFIG_KERNEL_AUTO, CONFIG_KERNEL_YES, CONFIG_KERNEL_NO };
enum config_threads { CONFIG_THREADS_NAME, CONFIG_THREADS_TID, CONFIG_THREADS_NONE };
enum config_format { CONFIG_FORMAT_FOLDED, CONFIG_FORMAT_PPROF };
enum config_unit { CONFIG_UNIT_SAMPLES, CONFIG_UNIT_US };

struct config {
    char out_pattern[CONFIG_OUT_BYTES]; /* see outpath.h; "": the default */
    unsigned rate_hz;     /* of a thread's CPU time, as asked: what is had may be less */
    unsigned stack_bytes; /* copied with a sample, a multiple of 8; 0: to be chosen */
    enum config_engine engine;
    enum config_kernel kernel;
    enum config_format format;    /* default: what the ending of out_pattern names, else folded */
    enum config_threads threads;  /* default: by name, in pprof files by tid */
    enum config_unit unit;        /* of folded files */
    char only[CONFIG_ONLY_BYTES]; /* see pattern_list_match; "": every program */
    bool children;
    bool enabled;
    bool summary;
    bool seccomp_end;                      /* the profile ends where the app enters seccomp */
    bool inlined;                          /* leave what it takes to show inlined functions, which
                                              goes for folded files only */
    bool libunwind;                        /* have it for what own rules cannot express */
    unsigned checkpoint_seconds;           /* 0: none */
    char report_path[CONFIG_REPORT_BYTES]; /* the FIFO of the selfsample command; "": none */
};

/*
 * Reads the SELFSAMPLE_* variables out of ENVIRONMENT (as environ is) over the defaults. An empty
 * value is the default. Of a variable that is there twice the last counts. Words may be in
 * capitals; for yes and no also 1, on, true and 0, off, false will do.
 *
 * Each mistake gives one line to COMPLAIN, with "selfsample: " in front and no newline, shown text
 * shortened and without control characters. The line is only valid during the call.
 */
void config_read(struct config *config, char *const *environment,
                 void (*complain)(void *context, const char *line), void *context);

/* What default names of files end in. */
static inline const char *config_ending(const struct config *config)
{
    return config->format == CONFIG_FORMAT_PPROF ? OUTPATH_PPROF : OUTPATH_FOLDED;
}

/* Is there to be a file of places (places.h)? */
static inline bool config_has_places(const struct config *config)
{
    return config->inlined && config->format == CONFIG_FORMAT_FOLDED;
}

#endif
