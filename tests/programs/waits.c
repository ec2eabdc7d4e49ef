/* Computes in work() without end until a signal: TERM by default; says `ready` once it runs. */
#include "burn.h"

BURNER(work)

int main(void)
{
    puts("ready");
    fflush(stdout);
    for (;;)
        work(10000);
}
