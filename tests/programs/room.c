/* Fills argv[1] bytes of malloc's, then uses argv[2] microseconds of CPU time in work(). Leaves
 * with status argv[3], and with 9 where there is no memory. */
#include <stdlib.h>
#include <string.h>

#include "burn.h"

BURNER(work)

int main(int argc, char **argv)
{
    size_t bytes = (size_t)argument(argc, argv, 1, 0);
    char *memory = malloc(bytes);
    if (memory == NULL)
        return 9;
    memset(memory, 1, bytes);
    work(argument(argc, argv, 2, 0));
    int first = memory[0];
    free(memory);
    return first == 1 ? (int)argument(argc, argv, 3, 0) : 9;
}
