/*
 * What a folded file does not say of itself, as an extended attribute of it: text, which whoever
 * reads the file sees nothing of, and which stays behind where the file is copied without it.
 *
 *     bytes N               the file's length: with another one it was changed, and nothing holds
 *     unit samples|us       of the counts
 *     rate N                samples per second of CPU time
 *     roots N               frames in front of a stack that are no functions
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_FACTS_H
#define SELFSAMPLE_CORE_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#define FACTS_NAME  "user.selfsample"
#define FACTS_BYTES 128u /* no attribute is longer */

struct facts {
    uint64_t bytes;
    bool is_us;
    uint64_t rate_hz;
    uint64_t roots;
};

/* Attaches FACTS to the file FD. Where that is refused the file goes without. */
void facts_attach(int fd, const struct facts *facts);

#endif
