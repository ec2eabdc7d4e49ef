/*
 * A library with one exported function, which calls two hidden ones, before and behind it:
 * 20/50/30 of argv ms. To be stripped, so that the hidden ones have no name.
 */
#include "burn.h"

/* Compilers order functions as they like, within a section. */
__attribute__((visibility("hidden"), section(".text.behind"))) void hidden_thirty(long us);

__attribute__((visibility("hidden"))) BURNER(hidden_fifty)

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

BURNER(hidden_thirty)
