/*
 * Glob patterns: * any text, ? any one character, [abc] [a-z] one of these, [!a-z] or [^a-z] one
 * that is not. Characters are bytes; a ] first in brackets is one of them; a [ that is never closed
 * stands for itself. The whole name has to match. No escape character: [*] is a star.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_PATTERN_H
#define SELFSAMPLE_CORE_PATTERN_H

#include <stdbool.h>
#include <stddef.h>

/* Whether NAME matches the LENGTH bytes of PATTERN. Time: at most the product of both lengths. */
bool pattern_match(const char *pattern, size_t length, const char *name);

/* Whether NAME matches one of LIST, patterns separated by commas, colons or white space. An empty
 * list matches every name. */
bool pattern_list_match(const char *list, const char *name);

#endif
