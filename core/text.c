/*
 * Text without stdio. Runs in the helper, in the app's constructor and in unit tests.
 * Never allocates, never asks the locale, never writes beyond the buffer it was given.
 */
#include "text.h"

#include <errno.h>
#include <string.h>

#define DECIMAL_DIGITS_MAX 20u /* of UINT64_MAX */
#define HEX_DIGITS_MAX     16u
#define FIXED_DECIMALS_MAX 9u

struct text text_over(char *buffer, size_t size)
{
    buffer[0] = '\0';
    return (struct text){.start = buffer, .size = size};
}

void text_put_bytes(struct text *text, const char *bytes, size_t length)
{
    size_t room = text->size - 1 - text->length;
    if (length > room) {
        length = room;
        text->cut = true;
    }
    memcpy(text->start + text->length, bytes, length);
    text->length += length;
    text->start[text->length] = '\0';
}

void text_put(struct text *text, const char *string)
{
    text_put_bytes(text, string, strlen(string));
}

void text_put_char(struct text *text, char c)
{
    text_put_bytes(text, &c, 1);
}

void text_put_padded(struct text *text, uint64_t value, unsigned width)
{
    char digits[DECIMAL_DIGITS_MAX];
    unsigned first = DECIMAL_DIGITS_MAX;
    if (width > DECIMAL_DIGITS_MAX)
        width = DECIMAL_DIGITS_MAX;
    do {
        digits[--first] = (char)('0' + value % 10);
        value /= 10;
    } while (value != 0);
    while (DECIMAL_DIGITS_MAX - first < width)
        digits[--first] = '0';
    text_put_bytes(text, digits + first, DECIMAL_DIGITS_MAX - first);
}

void text_put_u64(struct text *text, uint64_t value)
{
    text_put_padded(text, value, 1);
}

void text_put_i64(struct text *text, int64_t value)
{
    uint64_t magnitude = (uint64_t)value;
    if (value < 0) {
        text_put_char(text, '-');
        magnitude = -magnitude;
    }
    text_put_u64(text, magnitude);
}

void text_put_hex(struct text *text, uint64_t value)
{
    char digits[HEX_DIGITS_MAX];
    unsigned first = HEX_DIGITS_MAX;
    do {
        digits[--first] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    text_put_bytes(text, digits + first, HEX_DIGITS_MAX - first);
}

void text_put_hex_bytes(struct text *text, const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        text_put_hex(text, bytes[i] >> 4);
        text_put_hex(text, bytes[i] & 15);
    }
}

void text_put_fixed(struct text *text, uint64_t value, unsigned decimals)
{
    if (decimals > FIXED_DECIMALS_MAX)
        decimals = FIXED_DECIMALS_MAX;
    uint64_t scale = 1;
    for (unsigned i = 0; i < decimals; i++)
        scale *= 10;
    text_put_u64(text, value / scale);
    if (decimals == 0)
        return;
    text_put_char(text, '.');
    text_put_padded(text, value % scale, decimals);
}

/* The wording is that of strerror in the C locale, which users know from their shell. */
static const struct {
    int error;
    const char *words;
} error_words[] = {
    {EPERM, "Operation not permitted (EPERM)"},
    {ENOENT, "No such file or directory (ENOENT)"},
    {ESRCH, "No such process (ESRCH)"},
    {EINTR, "Interrupted system call (EINTR)"},
    {EIO, "Input/output error (EIO)"},
    {ENXIO, "No such device or address (ENXIO)"},
    {EBADF, "Bad file descriptor (EBADF)"},
    {ECHILD, "No child processes (ECHILD)"},
    {EAGAIN, "Resource temporarily unavailable (EAGAIN)"},
    {ENOMEM, "Cannot allocate memory (ENOMEM)"},
    {EACCES, "Permission denied (EACCES)"},
    {EFAULT, "Bad address (EFAULT)"},
    {EBUSY, "Device or resource busy (EBUSY)"},
    {EEXIST, "File exists (EEXIST)"},
    {EXDEV, "Invalid cross-device link (EXDEV)"},
    {ENODEV, "No such device (ENODEV)"},
    {ENOTDIR, "Not a directory (ENOTDIR)"},
    {EISDIR, "Is a directory (EISDIR)"},
    {EINVAL, "Invalid argument (EINVAL)"},
    {ENFILE, "Too many open files in system (ENFILE)"},
    {EMFILE, "Too many open files (EMFILE)"},
    {EFBIG, "File too large (EFBIG)"},
    {ENOSPC, "No space left on device (ENOSPC)"},
    {EROFS, "Read-only file system (EROFS)"},
    {EMLINK, "Too many links (EMLINK)"},
    {EPIPE, "Broken pipe (EPIPE)"},
    {ENAMETOOLONG, "File name too long (ENAMETOOLONG)"},
    {ENOSYS, "Function not implemented (ENOSYS)"},
    {ELOOP, "Too many levels of symbolic links (ELOOP)"},
    {EOVERFLOW, "Value too large for defined data type (EOVERFLOW)"},
    {EOPNOTSUPP, "Operation not supported (EOPNOTSUPP)"},
    {ETIMEDOUT, "It took too long (ETIMEDOUT)"},
    {ESTALE, "Stale file handle (ESTALE)"},
    {EDQUOT, "Disk quota exceeded (EDQUOT)"},
};

void text_put_error(struct text *text, int error)
{
    for (size_t i = 0; i < sizeof(error_words) / sizeof(error_words[0]); i++) {
        if (error_words[i].error == error) {
            text_put(text, error_words[i].words);
            return;
        }
    }
    text_put(text, "error ");
    text_put_i64(text, error);
}

bool text_equal(const char *one, const char *other)
{
    size_t length = strlen(one);
    return length == strlen(other) && memcmp(one, other, length) == 0;
}
