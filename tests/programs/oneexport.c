/*
 * A library with one exported function, which calls two hidden ones: 20/50/30 of argv ms. To be
 * stripped, so that the hidden ones have no name.
 */
#include "burn.h"

__attribute__((visibility("hidden"))) BURNER(hidden_fifty) __attribute__((visibility("hidden")))
BURNER(hidden_thirty)

    OWN_FRAME void exported(long ms);
OWN_FRAME void exported(long ms)
{
    for (long i = 0; i < ms / 10; i++) {
        hidden_fifty(5000);
        hidden_thirty(3000);
        burn_us(2000);
    }
    NOT_LAST();
}
