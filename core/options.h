/*
 * The names of the options as they stand behind "SELFSAMPLE_" in the environment, looked up through
 * a perfect hash that gperf makes of options.gperf. What they mean is config's affair.
 *
 * Thread safety: constant data.
 */
#ifndef SELFSAMPLE_CORE_OPTIONS_H
#define SELFSAMPLE_CORE_OPTIONS_H

#include <stddef.h>

/* In the order in which users are told of them; the internal ones, of which they are not, at the
 * end. */
enum option_id {
    OPTION_OUT,
    OPTION_RATE,
    OPTION_STACK,
    OPTION_ENGINE,
    OPTION_KERNEL,
    OPTION_THREADS,
    OPTION_UNIT,
    OPTION_ONLY,
    OPTION_CHILDREN,
    OPTION_ENABLED,
    OPTION_SUMMARY,
    OPTION_CHECKPOINT,
    OPTION_SECCOMP,
    OPTION_INLINE,
    OPTION_FORMAT,
    OPTION_LIBUNWIND,
    OPTION_REPORT,
    OPTION_COUNT,
    OPTION_PUBLIC_COUNT = OPTION_REPORT,
};

struct option_word {
    const char *name;
    enum option_id id;
};

/* The option of that name of LENGTH bytes, or NULL. */
const struct option_word *option_find(const char *name, size_t length);

/* The name of an option; "" for none. */
const char *option_name(enum option_id id);

#endif
