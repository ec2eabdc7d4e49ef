/*
 * Stacks that are deeper than any sample's copy, argv[2] ms of computing at their inner end, in a
 * thread that has room for them. argv[1]:
 *   small    30,000 small frames of recurse()
 *   pages    2000 frames of 4 KB of paged()
 *   large    one frame of 100 KB of large()
 *   fast     two stacks in turn, as fast as it can: left() over common()... over left_leaf(), and
 *            right() over the same common() over right_leaf(). Nothing differs but the outer end,
 *            which samples do not hold, and the leaf.
 *   turns    the same, but it stays in each for up to 3 ms
 *   late     shallow for the first two thirds, then 56 KB deep
 *   again    the same recursion left and entered anew every 50 ms
 *   holes    one frame of 40 KB that it writes to the lowest byte of alone, entered anew every 0.2
 * ms Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

#define SMALL_FRAMES  30000
#define PAGED_FRAMES  2000
#define COMMON_FRAMES 20
#define COMMON_BYTES  4096
#define LATE_FRAMES   14
#define STACK_BYTES   (64 << 20)

static long total_us;

BURNER(innermost)

static void slices(void)
{
    for (long us = 0; us < total_us; us += 500)
        innermost(500);
    NOT_LAST();
}

OWN_FRAME static void recurse(int left)
{
    if (left > 1)
        recurse(left - 1);
    else
        slices();
    NOT_LAST();
}

OWN_FRAME static void paged(int left)
{
    volatile char filled[4096];

    filled[left] = 1;
    if (left > 1)
        paged(left - 1);
    else
        slices();
    filled[left]++;
}

OWN_FRAME static void large(void)
{
    volatile char filled[100 * 1024];

    filled[0] = 1;
    slices();
    filled[0]++;
}

OWN_FRAME static void holes(void)
{
    volatile char unfilled[40 * 1024];

    unfilled[0] = 1;
    innermost(200);
    unfilled[0]++;
}

OWN_FRAME static void again(int left, long us)
{
    volatile char filled[COMMON_BYTES];

    filled[left] = 1;
    if (left > 1)
        again(left - 1, us);
    else
        innermost(us);
    filled[left]++;
}

OWN_FRAME static void left_leaf(long turns)
{
    spin(turns);
}

OWN_FRAME static void right_leaf(long turns)
{
    spin(turns);
}

OWN_FRAME static void common(int left, void (*leaf)(long), long turns)
{
    volatile char filled[COMMON_BYTES];

    filled[left] = 1;
    if (left > 1)
        common(left - 1, leaf, turns);
    else
        leaf(turns);
    filled[left]++;
}

OWN_FRAME static void left(long turns)
{
    common(COMMON_FRAMES, left_leaf, turns);
    NOT_LAST();
}

OWN_FRAME static void right(long turns)
{
    common(COMMON_FRAMES, right_leaf, turns);
    NOT_LAST();
}

static void alternate(long most_turns)
{
    long end_ns = thread_cpu_ns() + total_us * 1000;
    unsigned random = 1;

    while (thread_cpu_ns() < end_ns)
        for (int i = 0; i < (most_turns > 1000 ? 1 : 1000); i++) {
            random = random * 1103515245 + 12345;
            left((random >> 8) % most_turns);
            random = random * 1103515245 + 12345;
            right((random >> 8) % most_turns);
        }
}

static void *run(void *what)
{
    const char *name = what;

    switch (strcmp(name, "late") ? *name : 'L') {
    case 's':
        recurse(SMALL_FRAMES);
        break;
    case 'p':
        paged(PAGED_FRAMES);
        break;
    case 'l':
        large();
        break;
    case 'f':
        alternate(20);
        break;
    case 't':
        alternate(3000000);
        break;
    case 'h':
        for (long us = 0; us < total_us; us += 200)
            holes();
        break;
    case 'L':
        innermost(total_us * 2 / 3);
        again(LATE_FRAMES, total_us / 3);
        break;
    case 'a':
        for (long us = 0; us < total_us; us += 50000)
            again(COMMON_FRAMES, 50000);
        break;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static char *const names[] = {"small", "pages", "large", "fast",
                                  "turns", "again", "late",  "holes"};
    pthread_attr_t attributes;
    pthread_t thread;

    total_us = argument(argc, argv, 2, 1000) * 1000;
    for (size_t i = 0; argc > 1 && i < sizeof names / sizeof *names; i++) {
        if (strcmp(argv[1], names[i]))
            continue;
        if (pthread_attr_init(&attributes) || pthread_attr_setstacksize(&attributes, STACK_BYTES) ||
            pthread_create(&thread, &attributes, run, names[i]) || pthread_join(thread, NULL))
            return 1;
        puts(names[i]);
        return 0;
    }
    return 2;
}
