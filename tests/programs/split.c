/*
 * Three functions that share the CPU time of the main thread 60/30/10, for argv[1] milliseconds.
 *
 * Each has a caller of its own, and the slices do not fit any round sampling period.
 */
#include "burn.h"

BURNER(sixty)
BURNER(thirty)
BURNER(ten)

OWN_FRAME void middle(long slice_us);
OWN_FRAME void middle(long slice_us)
{
    sixty(slice_us * 6);
    thirty(slice_us * 3);
    ten(slice_us);
    NOT_LAST();
}

MAIN_OF(middle)
