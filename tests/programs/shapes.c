/*
 * Code that is hard to unwind, argv[2] ms of it, chosen by argv[1]. The caller of interest is
 * always called caller():
 *   prologue  a tiny function called without end, so that samples hit its first instructions
 *   plt       calls through the PLT into libm
 *   ifunc     calls through an indirect function (memcpy and one of our own)
 *   tail      a function reached by a tail call: its caller's caller is the one above it
 *   vdso      clock_gettime of the monotonic clock, in a loop
 *   deep      200 frames of recursion over the burning function
 *   base      a caller whose frame is found by a register that no rule follows (x86-64)
 * Build: -lm -fno-builtin
 */
#include "burn.h"

#include <math.h>
#include <stdint.h>

OWN_FRAME int leaf(int x);
OWN_FRAME int leaf(int x)
{
    return x + 1;
}

OWN_FRAME uint64_t pushing_leaf(uint64_t x);
OWN_FRAME uint64_t pushing_leaf(uint64_t x)
{
#ifdef __aarch64__
    __asm__ volatile("" ::: "x19", "x20", "x21", "x22", "x23");
#else
    __asm__ volatile("" ::: "rbx", "r12", "r13", "r14", "r15");
#endif
    return x * 3;
}

/* Long enough for samples to fall into it, whatever the processor does at once. */
static int chosen(int x)
{
    for (int i = 0; i < 50; i++)
        __asm__ volatile("" : "+r"(x));
    return x ^ 5;
}

static int (*choose(void))(int)
{
    return chosen;
}
int indirect(int x) __attribute__((ifunc("choose")));

BURNER(reached)

OWN_FRAME void jumping(long us);
OWN_FRAME void jumping(long us)
{
    reached(us);
}

OWN_FRAME void recurse(int depth, long us);
OWN_FRAME void recurse(int depth, long us)
{
    if (depth)
        recurse(depth - 1, us);
    else
        reached(us);
    NOT_LAST();
}

NEEDS_LIBUNWIND(based, reached)

static volatile uint64_t sink;
static volatile double float_sink = 1.0;
static char source[256], target[256];

static void one_round(char shape)
{
    struct timespec now;

    switch (shape) {
    case 'p':
        sink = pushing_leaf((uint64_t)leaf((int)sink));
        break;
    case 'l':
        float_sink = cbrt(float_sink + 1.0) + fmod(float_sink, 0.7);
        break;
    case 'i':
        memcpy(target, source, sizeof(target));
        sink = (uint64_t)indirect((int)sink);
        break;
    case 'v':
        clock_gettime(CLOCK_MONOTONIC, &now);
        break;
    }
}

OWN_FRAME void caller(char shape, long us);
OWN_FRAME void caller(char shape, long us)
{
    long end_ns = thread_cpu_ns() + us * 1000;

    if (shape == 't')
        jumping(us);
    else if (shape == 'd')
        recurse(200, us);
    else if (shape == 'b')
        based(us);
    while (thread_cpu_ns() < end_ns)
        for (int i = 0; i < 2000; i++)
            one_round(shape);
    NOT_LAST();
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        char shape;
    } shapes[] = {{"prologue", 'p'}, {"plt", 'l'},  {"ifunc", 'i'}, {"tail", 't'},
                  {"vdso", 'v'},     {"deep", 'd'}, {"base", 'b'}};

    for (size_t i = 0; argc > 1 && i < sizeof(shapes) / sizeof(*shapes); i++)
        if (!strcmp(argv[1], shapes[i].name)) {
            caller(shapes[i].shape, argument(argc, argv, 2, 1000) * 1000);
            puts(argv[1]);
            return 0;
        }
    return 2;
}
