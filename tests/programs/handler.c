/* Handles TERM and INT itself: sends both to itself, computes in the handlers, leaves with 9. */
#include "burn.h"

#include <signal.h>

BURNER(in_main)
BURNER(in_handler)

static volatile sig_atomic_t handled;

static void on_signal(int number)
{
    (void)number;
    in_handler(300000);
    handled++;
}

int main(void)
{
    signal(SIGTERM, on_signal);
    signal(SIGINT, on_signal);
    in_main(200000);
    raise(SIGTERM);
    raise(SIGINT);
    in_main(200000);
    printf("handled %d\n", (int)handled);
    return 9;
}
