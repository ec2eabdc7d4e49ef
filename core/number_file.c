/* Reads numbers from small files. Runs in the constructor and in the helper; no libc. */
#include "number_file.h"

#include <stddef.h>

#include "sys.h"

#define TEXT_BYTES 96u /* four of the largest numbers */

/* Returns the end of what was read into TEXT (TEXT_BYTES); its begin where nothing was. */
static const char *text_read(const char *path, char *text)
{
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return text;
    long length = sys_read(fd, text, TEXT_BYTES);
    sys_close(fd);
    return length > 0 ? text + length : text;
}

/* The number that is between TEXT and END. Returns where it ends; NULL where there is none. */
static const char *digits_read(const char *text, const char *end, int64_t *value)
{
    const char *digit = text;
    *value = 0;
    for (; digit < end && *digit >= '0' && *digit <= '9'; digit++)
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, *digit - '0', value))
            *value = INT64_MAX;
    return digit > text ? digit : NULL;
}

int64_t number_file_read_signed(const char *path, int64_t fallback)
{
    char text[TEXT_BYTES];
    const char *end = text_read(path, text);
    int64_t value;
    bool negative = end > text && text[0] == '-';
    if (digits_read(text + negative, end, &value) == NULL)
        return fallback;
    return negative ? -value : value;
}

uint64_t number_file_read(const char *path, uint64_t fallback)
{
    int64_t value = number_file_read_signed(path, -1);
    return value < 0 ? fallback : (uint64_t)value;
}

bool number_file_read_list(const char *path, uint64_t *numbers, unsigned count)
{
    char text[TEXT_BYTES];
    const char *end = text_read(path, text), *at = text;
    int64_t value;
    for (unsigned i = 0; i < count; i++) {
        at = digits_read(at, end, &value);
        if (at == NULL)
            return false;
        numbers[i] = (uint64_t)value;
        at += at < end && *at == ' ';
    }
    return true;
}
