/*
 * memcpy and its like for the library's own use, hidden: the app may bring versions of its own (and
 * sanitizers do, which use thread-local data that the helper does not have).
 *
 * The compiler emits calls to these; they are compiled so that it does not turn them into calls to
 * themselves. Runs in the helper and in the app's threads.
 */
#include <stddef.h>
#include <stdint.h>

#include "arch.h"

void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void *memset(void *to, int value, size_t bytes);
int memcmp(const void *a, const void *b, size_t bytes);
int bcmp(const void *a, const void *b, size_t bytes);
size_t strlen(const char *text);

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    arch_copy(to, from, bytes);
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    if ((uintptr_t)t - (uintptr_t)f >= bytes)
        return memcpy(to, from, bytes);
    while (bytes-- > 0)
        t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    arch_fill(to, value, bytes);
    return to;
}

int memcmp(const void *a, const void *b, size_t bytes)
{
    const uint8_t *x = a, *y = b;
    for (; bytes-- > 0; x++, y++)
        if (*x != *y)
            return *x - *y;
    return 0;
}

/* What clang makes of a memcmp that only asks whether there is a difference. */
int bcmp(const void *a, const void *b, size_t bytes)
{
    return memcmp(a, b, bytes);
}

size_t strlen(const char *text)
{
    const char *end = text;
    while (*end != '\0')
        end++;
    return (size_t)(end - text);
}
