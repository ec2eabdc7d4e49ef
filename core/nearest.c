/* Edit distance. Runs in the app's constructor. Never allocates; its table has a fixed size. */
#include "nearest.h"

#include <string.h>

#define SIDE (NEAREST_BYTES_MAX + 1)

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Fills in the cell for the first I letters of A and the first J of B, both at least 1. */
static void cell_fill(unsigned char table[SIDE][SIDE], const char *a, const char *b, size_t i,
                      size_t j)
{
    char last_a = lower(a[i - 1]), last_b = lower(b[j - 1]);
    unsigned cost = least(table[i - 1][j], table[i][j - 1]) + 1u;
    cost = least(cost, table[i - 1][j - 1] + (last_a != last_b));
    if (i > 1 && j > 1 && last_a == lower(b[j - 2]) && lower(a[i - 2]) == last_b)
        cost = least(cost, table[i - 2][j - 2] + 1u);
    table[i][j] = (unsigned char)cost;
}

unsigned nearest_distance(const char *a, const char *b)
{
    unsigned char table[SIDE][SIDE];
    size_t a_length = strlen(a), b_length = strlen(b);
    if (a_length > NEAREST_BYTES_MAX || b_length > NEAREST_BYTES_MAX)
        return NEAREST_BYTES_MAX + 1;
    for (size_t i = 0; i <= a_length; i++) {
        table[i][0] = (unsigned char)i;
        for (size_t j = 1; j <= b_length; j++) {
            if (i == 0)
                table[0][j] = (unsigned char)j;
            else
                cell_fill(table, a, b, i, j);
        }
    }
    return table[a_length][b_length];
}

const char *nearest_word(const char *wrong, const char *const *words, size_t count)
{
    const char *best = NULL;
    unsigned best_distance = NEAREST_BYTES_MAX + 1;
    for (size_t i = 0; i < count; i++) {
        unsigned distance = nearest_distance(wrong, words[i]);
        if (distance < best_distance) {
            best_distance = distance;
            best = words[i];
        }
    }
    if (best == NULL)
        return NULL;
    size_t length = strlen(wrong) > strlen(best) ? strlen(wrong) : strlen(best);
    return 2 * best_distance <= length ? best : NULL;
}
