/*
 * A library for swaps.c: plugin_run() computes in NAME_upper() and NAME_lower() by turns, which lie
 * where the other library has them the other way round.
 */
#include "burn.h"

#define JOIN(a, b)  a##b
#define NAMED(a, b) JOIN(a, b)

#ifdef REVERSE
BURNER(NAMED(NAME, _lower))
BURNER(NAMED(NAME, _upper))
#else
BURNER(NAMED(NAME, _upper))
BURNER(NAMED(NAME, _lower))
#endif

void plugin_run(long us);
void plugin_run(long us)
{
    NAMED(NAME, _upper)(us * 3 / 4);
    NAMED(NAME, _lower)(us / 4);
    NOT_LAST();
}
