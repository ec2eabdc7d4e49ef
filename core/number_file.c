/* Reads a number from a small file. Runs in the constructor and in the helper; no libc. */
#include "number_file.h"

#include <stdbool.h>

#include "sys.h"

int64_t number_file_read_signed(const char *path, int64_t fallback)
{
    char digits[24];
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return fallback;
    long length = sys_read(fd, digits, sizeof digits);
    sys_close(fd);
    bool negative = length > 0 && digits[0] == '-';
    int64_t value = 0;
    long i = negative;
    for (; i < length && i < 19 && digits[i] >= '0' && digits[i] <= '9'; i++)
        value = value * 10 + (digits[i] - '0');
    if (i <= negative)
        return fallback;
    return negative ? -value : value;
}

uint64_t number_file_read(const char *path, uint64_t fallback)
{
    int64_t value = number_file_read_signed(path, -1);
    return value < 0 ? fallback : (uint64_t)value;
}
