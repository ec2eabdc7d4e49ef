/*
 * Has an alternate signal stack on which one signal has room, and a second one on top of it has
 * not, and computes in a handler there, TIMES times for MS each; the handler and the program say
 * which masks they see.
 *
 *     tightstack MS TIMES
 *
 * Bound at its start, since the linker saves all registers on the stack it is called on.
 * Build: -Wl,-z,now
 */
#include "burn.h"

#include <signal.h>
#include <stdint.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif

/* Behind the stack's end, not to be touched. */
#define GUARD_BYTES 65536u

/* What one signal takes where the kernel does not tell, and what is left beside it. */
#define FRAME_BYTES 4800u
#define LEFT_BYTES  2100u

BURNER(in_handler)
BURNER(outside)

static long us;
static uint64_t seen;

static void on_signal(int number)
{
    sigset_t now;
    (void)number;
    sigprocmask(SIG_BLOCK, NULL, &now);
    seen = *(uint64_t *)&now;
    in_handler(us);
}

int main(int argc, char **argv)
{
    size_t frame_bytes = getauxval(AT_MINSIGSTKSZ);
    stack_t stack = {.ss_size = (frame_bytes != 0 ? frame_bytes : FRAME_BYTES) + LEFT_BYTES};
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_ONSTACK}, old;
    us = 1000 * argument(argc, argv, 1, 50);
    char *memory = mmap(NULL, GUARD_BYTES + stack.ss_size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0)
        return 1;
    stack.ss_sp = memory + GUARD_BYTES;
    sigaddset(&action.sa_mask, SIGUSR2);
    if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGUSR1, &action, NULL) != 0)
        return 1;
    for (long i = argument(argc, argv, 2, 4); i > 0; i--) {
        raise(SIGUSR1);
        outside(us);
    }
    if (sigaction(SIGUSR1, NULL, &old) != 0)
        return 2;
    printf("in the handler %#llx, of it %#llx\n", (unsigned long long)seen,
           (unsigned long long)*(uint64_t *)&old.sa_mask);
    return 0;
}
