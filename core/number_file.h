/*
 * Files of /proc and /sys that hold numbers.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_NUMBER_FILE_H
#define SELFSAMPLE_CORE_NUMBER_FILE_H

#include <stdbool.h>
#include <stdint.h>

/* The number that PATH begins with, or FALLBACK where it can't be read or holds none. One that is
 * too large counts as INT64_MAX. */
int64_t number_file_read_signed(const char *path, int64_t fallback);

/* The same for files that hold no negative numbers; one counts as FALLBACK. */
uint64_t number_file_read(const char *path, uint64_t fallback);

/* The COUNT numbers that PATH begins with, none of them negative, with a space between. False where
 * it can't be read, or holds fewer. */
bool number_file_read_list(const char *path, uint64_t *numbers, unsigned count);

#endif
