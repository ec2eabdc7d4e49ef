/*
 * Computes in a signal handler that has a stack of its own, below functions that have filled more
 * of theirs than a sample holds.
 *
 *     altstack MS
 */
#include "burn.h"

#include <signal.h>

#define FRAMES      30
#define FRAME_BYTES 4000
/* What was interrupted is read a little after the samples: it must still be there. */
#define LINGER_US 200000

BURNER(in_handler)

static long total_us;

static void on_signal(int number)
{
    (void)number;
    in_handler(total_us);
    usleep(LINGER_US);
}

OWN_FRAME static void interrupted(void)
{
    raise(SIGUSR1);
    usleep(LINGER_US);
}

OWN_FRAME static void filler(int left)
{
    volatile char filled[FRAME_BYTES];
    filled[left] = 1;
    if (left > 0)
        filler(left - 1);
    else
        interrupted();
    filled[left]++;
}

int main(int argc, char **argv)
{
    stack_t stack = {.ss_size = 65536};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK};
    total_us = argc > 1 ? 1000 * atol(argv[1]) : 500000;
    stack.ss_sp = malloc(stack.ss_size);
    if (stack.ss_sp == NULL || sigaltstack(&stack, NULL) != 0 ||
        sigaction(SIGUSR1, &action, NULL) != 0)
        return 1;
    filler(FRAMES - 1);
    return 0;
}
