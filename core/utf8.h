/*
 * What is UTF-8 and what is not. Names come from symbol tables, where any bytes may be.
 *
 * Thread safety: keeps no state.
 */
#ifndef SELFSAMPLE_CORE_UTF8_H
#define SELFSAMPLE_CORE_UTF8_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes of the UTF-8 character at TEXT, a string; 0 where there is none, a surrogate or one in more
 * bytes than it needs included. */
size_t utf8_bytes(const unsigned char *text);

/* Is all of TEXT UTF-8? */
bool utf8_is_clean(const char *text);

/* Puts `?` in the place of each byte that belongs to no character. */
void utf8_clean(char *text);

#endif
