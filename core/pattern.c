/* Glob patterns. Runs in the app's constructor and in the helper. Never recurses, never allocates.
 */
#include "pattern.h"

/* Where the bracket expression at AT ends (behind its ]), or AT itself where it is never closed. */
static const char *bracket_end(const char *at, const char *end)
{
    const char *inside = at + 1;
    if (inside < end && (*inside == '!' || *inside == '^'))
        inside++;
    for (const char *c = inside; c < end; c++)
        if (*c == ']' && c > inside)
            return c + 1;
    return at;
}

/* AT is the [ of an expression that ends at END, behind its ]. */
static bool bracket_match(const char *at, const char *end, unsigned char wanted)
{
    const char *c = at + 1;
    const char *last = end - 1;
    bool negated = *c == '!' || *c == '^';
    bool found = false;
    if (negated)
        c++;
    while (c < last) {
        bool range = last - c > 2 && c[1] == '-';
        unsigned char low = (unsigned char)c[0];
        unsigned char high = (unsigned char)c[range ? 2 : 0];
        found = found || (low <= wanted && wanted <= high);
        c += range ? 3 : 1;
    }
    return found != negated;
}

/* Matches one character against the pattern at AT, which is no star: behind what stands for it, or
 * NULL. */
static const char *one_match(const char *at, const char *end, char c)
{
    if (at == end)
        return NULL;
    if (*at == '?')
        return at + 1;
    const char *behind = *at == '[' ? bracket_end(at, end) : at;
    if (behind != at)
        return bracket_match(at, behind, (unsigned char)c) ? behind : NULL;
    return *at == c ? at + 1 : NULL;
}

bool pattern_match(const char *pattern, size_t length, const char *name)
{
    const char *at = pattern;
    const char *end = pattern + length;
    const char *behind_star = NULL; /* of the last star met; an earlier one need never take more */
    const char *star_took = NULL;   /* the name up to here */
    while (*name != '\0') {
        if (at < end && *at == '*') {
            behind_star = ++at;
            star_took = name;
            continue;
        }
        const char *next = one_match(at, end, *name);
        if (next != NULL) {
            at = next;
            name++;
        } else if (behind_star != NULL) {
            at = behind_star;
            name = ++star_took;
        } else {
            return false;
        }
    }
    while (at < end && *at == '*')
        at++;
    return at == end;
}

static bool is_separator(char c)
{
    return c == ',' || c == ':' || c == ' ' || (c >= '\t' && c <= '\r');
}

bool pattern_list_match(const char *list, const char *name)
{
    bool empty = true;
    while (*list != '\0') {
        size_t length = 0;
        while (list[length] != '\0' && !is_separator(list[length]))
            length++;
        if (length > 0 && pattern_match(list, length, name))
            return true;
        empty = empty && length == 0;
        list += length > 0 ? length : 1;
    }
    return empty;
}
