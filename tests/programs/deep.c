/* 60 frames of 4 KB each, more than a sample's copy holds; the innermost uses argv[1] ms. */
#include "burn.h"

BURNER(innermost)

__attribute__((noinline)) static int deeper(int left, long us)
{
    volatile char frame[4096];

    frame[left] = (char)left;
    if (left == 0)
        innermost(us);
    else
        deeper(left - 1, us);
    return frame[left];
}

int main(int argc, char **argv)
{
    return deeper(60, argument(argc, argv, 1, 500) * 1000) != 60;
}
