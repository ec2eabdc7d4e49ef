/*
 * Copies stdin to stdout, then says on stderr how many bytes, and leaves with their number modulo
 * 256: for what a command must pass on. With an argument, first says its arguments.
 */
#include "burn.h"

int main(int argc, char **argv)
{
    long bytes = 0;
    int c;

    for (int i = 1; i < argc; i++)
        printf("<%s>\n", argv[i]);
    while ((c = getchar()) != EOF) {
        putchar(c);
        bytes++;
    }
    fprintf(stderr, "%ld bytes\n", bytes);
    return (int)(bytes % 256);
}
