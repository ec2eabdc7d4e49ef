/*
 * Text without stdio: appends to a buffer of fixed size, always NUL-terminated, never beyond its
 * end. Too long a text is cut and `cut` is set. No locale, no allocation, no errno.
 *
 * Thread safety: one task at a time per struct text.
 */
#ifndef SELFSAMPLE_CORE_TEXT_H
#define SELFSAMPLE_CORE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *start;
    size_t size;   /* of the buffer, the NUL included; at least 1 */
    size_t length; /* without the NUL */
    bool cut;
};

/* A text over BUFFER of SIZE bytes (at least 1), empty at first. */
struct text text_over(char *buffer, size_t size);

void text_put(struct text *text, const char *string);
void text_put_bytes(struct text *text, const char *bytes, size_t length);
void text_put_char(struct text *text, char c);
void text_put_u64(struct text *text, uint64_t value);
void text_put_i64(struct text *text, int64_t value);

/* Decimal with leading zeros up to WIDTH digits (at most 20). */
void text_put_padded(struct text *text, uint64_t value, unsigned width);

/* Lower-case hexadecimal, without "0x". */
void text_put_hex(struct text *text, uint64_t value);

/* COUNT bytes of two digits each, as build ids are written. */
void text_put_hex_bytes(struct text *text, const uint8_t *bytes, size_t count);

/* A fixed-point number: VALUE / 10^DECIMALS with DECIMALS digits behind the point (at most 9). */
void text_put_fixed(struct text *text, uint64_t value, unsigned decimals);

/* "No such file or directory (ENOENT)" for a positive errno value that core meets; else "error N".
 */
void text_put_error(struct text *text, int error);

/* Are the two strings the same? */
bool text_equal(const char *one, const char *other);

#endif
