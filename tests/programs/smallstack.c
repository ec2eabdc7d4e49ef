/*
 * Build: -pthread
 *
 * A thread whose alternate signal stack has 3 KB, which is more than sigaltstack asks for and less
 * than a signal takes on a processor with AVX-512, computes beside the first one.
 *
 *     smallstack MS
 *
 * Both compute for MS in ample(); before, while and after it has that stack, the thread does so in
 * before(), meanwhile() and after(). Prints what sigaltstack says.
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>

BURNER(ample)
BURNER(before)
BURNER(meanwhile)
BURNER(after)

static long us;

static void tell(const char *when)
{
    stack_t now;
    if (sigaltstack(NULL, &now) == 0)
        printf("%s: %zu bytes, flags %d\n", when, now.ss_size, now.ss_flags);
}

static void *compute(void *unused)
{
    static char memory[3072];
    stack_t small = {.ss_sp = memory, .ss_size = sizeof memory};
    stack_t none = {.ss_flags = SS_DISABLE}, refused = {.ss_sp = memory, .ss_size = 1};
    before(us);
    if (sigaltstack(&refused, NULL) == 0 || sigaltstack(&small, NULL) != 0)
        exit(9);
    tell("small");
    meanwhile(us);
    if (sigaltstack(&refused, NULL) == 0 || sigaltstack(&none, &small) != 0)
        exit(9);
    tell("none");
    after(us);
    return unused;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    us = 1000 * argument(argc, argv, 1, 500);
    if (pthread_create(&thread, NULL, compute, NULL) != 0)
        return 9;
    ample(us);
    pthread_join(thread, NULL);
    return 0;
}
