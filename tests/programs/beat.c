/*
 * Alternates between thirty() and seventy() in a cycle of argv[1] us of CPU time, for argv[2] ms:
 * with a cycle near a multiple of the sampling period a sampler without dither sees a beat.
 */
#include "burn.h"

/* Finer than burn_us(): the cycle must keep step with the clock, not drift by its own overhead. */
#define PHASE(name)                                                                                \
    OWN_FRAME void name(long end_ns);                                                              \
    OWN_FRAME void name(long end_ns)                                                               \
    {                                                                                              \
        while (thread_cpu_ns() < end_ns)                                                           \
            spin(500);                                                                             \
    }
PHASE(thirty)
PHASE(seventy)

int main(int argc, char **argv)
{
    long cycle_ns = argument(argc, argv, 1, 1000) * 1000;
    long cycles = argument(argc, argv, 2, 2000) * 1000000 / cycle_ns;
    long start_ns = thread_cpu_ns();

    for (long i = 0; i < cycles; i++) {
        thirty(start_ns + i * cycle_ns + cycle_ns * 3 / 10);
        seventy(start_ns + (i + 1) * cycle_ns);
    }
    return 0;
}
