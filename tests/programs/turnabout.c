/*
 * Two threads wake each other in turns, argv[1] times each, through pipes: next to all that they do
 * is to give way. Leaves with 0.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

static int there[2], back[2];

static void *echo(void *turns)
{
    char byte;
    for (long i = *(long *)turns; i > 0; i--)
        if (read(there[0], &byte, 1) != 1 || write(back[1], &byte, 1) != 1)
            exit(1);
    return NULL;
}

int main(int argc, char **argv)
{
    long turns = argument(argc, argv, 1, 100000);
    char byte = 0;
    pthread_t thread;
    if (pipe(there) != 0 || pipe(back) != 0 || pthread_create(&thread, NULL, echo, &turns) != 0)
        return 1;
    for (long i = turns; i > 0; i--)
        if (write(there[1], &byte, 1) != 1 || read(back[0], &byte, 1) != 1)
            return 1;
    return pthread_join(thread, NULL);
}
