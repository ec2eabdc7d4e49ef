/* Parses /proc/PID/maps. Runs in the helper; one buffer on the stack, raw reads. */
#include "proc_maps.h"

#include <stddef.h>

#include "sys.h"

#define LINE_BYTES_MAX 4352u /* a path of PATH_MAX and what stands before it */

static bool take_number(const char **at, unsigned base, uint64_t *value)
{
    const char *start = *at;
    for (*value = 0;; (*at)++) {
        unsigned digit;
        if (**at >= '0' && **at <= '9')
            digit = (unsigned)(**at - '0');
        else if (base == 16 && **at >= 'a' && **at <= 'f')
            digit = (unsigned)(**at - 'a') + 10;
        else
            return *at > start;
        *value = *value * base + digit;
    }
}

static bool take_char(const char **at, char c)
{
    if (**at != c)
        return false;
    (*at)++;
    return true;
}

/* "start-end perms offset major:minor inode   path" */
static bool parse(const char *line, struct proc_maps_entry *entry)
{
    uint64_t device;
    const char *at = line;
    if (!take_number(&at, 16, &entry->start) || !take_char(&at, '-') ||
        !take_number(&at, 16, &entry->end) || !take_char(&at, ' '))
        return false;
    for (unsigned i = 0; i < 4; i++, at++) {
        if (*at == '\0')
            return false;
        if (i == 2)
            entry->executable = *at == 'x';
    }
    if (!take_char(&at, ' ') || !take_number(&at, 16, &entry->file_offset) ||
        !take_char(&at, ' ') || !take_number(&at, 16, &device) || !take_char(&at, ':') ||
        !take_number(&at, 16, &device) || !take_char(&at, ' ') ||
        !take_number(&at, 10, &entry->inode))
        return false;
    while (*at == ' ')
        at++;
    entry->path = at;
    return entry->end > entry->start;
}

/* Hands out the complete lines in BUFFER and moves the rest to its start. Returns the rest's
 * length. */
static size_t lines_hand_out(char *buffer, size_t length,
                             void (*each)(void *, const struct proc_maps_entry *), void *context)
{
    size_t start = 0;
    for (size_t i = 0; i < length; i++) {
        if (buffer[i] != '\n')
            continue;
        buffer[i] = '\0';
        struct proc_maps_entry entry;
        if (parse(buffer + start, &entry))
            each(context, &entry);
        start = i + 1;
    }
    __builtin_memmove(buffer, buffer + start, length - start);
    return length - start;
}

int proc_maps_read(const char *maps_path,
                   void (*each)(void *context, const struct proc_maps_entry *entry), void *context)
{
    char buffer[2 * LINE_BYTES_MAX];
    int fd = sys_open(maps_path, O_RDONLY, 0);
    if (fd < 0)
        return fd;
    size_t length = 0;
    long got;
    while ((got = sys_read(fd, buffer + length, sizeof buffer - length)) > 0) {
        length = lines_hand_out(buffer, length + (size_t)got, each, context);
        if (length == sizeof buffer) /* a line longer than any path: drop it */
            length = 0;
    }
    sys_close(fd);
    return got < 0 ? (int)got : 0;
}
