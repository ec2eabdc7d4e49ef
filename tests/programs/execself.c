/*
 * Uses 50 ms of CPU time, then executes itself, until argv[1] images have run. Every image first
 * tries an exec that fails. The last one leaves with status 6.
 */
#include "burn.h"

#include <errno.h>

BURNER(in_image)

int main(int argc, char **argv)
{
    long left = argument(argc, argv, 1, 1);
    char text[24];

    in_image(25000);
    execl("/nonexistent/program", "program", (char *)NULL);
    if (errno != ENOENT)
        return 99;
    in_image(25000);
    if (left <= 1)
        return 6;
    snprintf(text, sizeof(text), "%ld", left - 1);
    execl("/proc/self/exe", argv[0], text, (char *)NULL);
    return 98;
}
