/*
 * Inlined functions that share the CPU time 60/30/10, for argv[1] milliseconds.
 *
 *     work (not inlined) -> sixty
 *                        -> thirty -> called (not inlined)
 *                        -> ten -> deeper -> deepest
 *
 * With AS_LIBRARY this is all there is; with USES_LIBRARY work() is elsewhere.
 */
#include "burn.h"

void work(long slice_us);

#ifndef USES_LIBRARY
ALWAYS_INLINE void sixty(long us)
{
    burn_us(us);
}

BURNER(called)

ALWAYS_INLINE void thirty(long us)
{
    called(us);
    NOT_LAST();
}

ALWAYS_INLINE void deepest(long us)
{
    burn_us(us);
}

ALWAYS_INLINE void deeper(long us)
{
    deepest(us);
}

ALWAYS_INLINE void ten(long us)
{
    deeper(us);
}

OWN_FRAME void work(long slice_us)
{
    sixty(slice_us * 6);
    thirty(slice_us * 3);
    ten(slice_us);
    NOT_LAST();
}
#endif

#ifndef AS_LIBRARY
MAIN_OF(work)
#endif
