/*
 * The helper's first descriptors have fixed numbers, by which others find what it offers. Its last
 * ones are kept for its last work: a profile that can't be written because events and modules took
 * them all would be worth nothing.
 *
 * Thread safety: no state; the helper.
 */
#ifndef SELFSAMPLE_CORE_DESCRIPTORS_H
#define SELFSAMPLE_CORE_DESCRIPTORS_H

#include <stdbool.h>

/* The profile's file, and two that are opened for names meanwhile. */
#define DESCRIPTORS_SPARE 3
/* Files of modules, which come at any time: without one there are neither names nor rules. An event
 * without a descriptor loses much less. */
#define DESCRIPTORS_FOR_FILES 16

/* Is FD, just opened to be held for long, one of the last that the limit on files allows? */
bool descriptor_is_spare(int fd);

/* The same for FD of an event, which leaves those to files as well. */
bool descriptor_is_for_files(int fd);

/* Gives FD, which is the caller's (negative: none), that number, whose file is closed. Returns it,
 * or a negative number. */
int descriptor_move(int fd, int number);

/* Makes an empty memory file, for its user alone to open, descriptor NUMBER. Returns that, or -1.
 */
int descriptor_offer(const char *name, int number);

#endif
