/* Reads a number from a small file. Runs in the constructor and in the helper; no libc. */
#include "number_file.h"

#include <stdbool.h>

#include "sys.h"

int64_t number_file_read_signed(const char *path, int64_t fallback)
{
    char digits[32];
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fallback;
    long length = sys_read(fd, digits, sizeof digits);
    sys_close(fd);
    bool negative = length > 0 && digits[0] == '-';
    int64_t value = 0;
    long i = negative;
    for (; i < length && digits[i] >= '0' && digits[i] <= '9'; i++)
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, digits[i] - '0', &value))
            value = INT64_MAX;
    if (i <= negative)
        return fallback;
    return negative ? -value : value;
}

uint64_t number_file_read(const char *path, uint64_t fallback)
{
    int64_t value = number_file_read_signed(path, -1);
    return value < 0 ? fallback : (uint64_t)value;
}
