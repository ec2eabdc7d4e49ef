/* Computes for argv[1] ms in before(), then takes 256 MB, one after the other. Leaves with status
 * 9, if nobody ends it before. */
#include "burn.h"

BURNER(before)

enum { BLOCK_BYTES = 1 << 20, BLOCKS = 256 };

int main(int argc, char **argv)
{
    before(1000 * argument(argc, argv, 1, 0));
    for (int i = 0; i < BLOCKS; i++) {
        char *block = malloc(BLOCK_BYTES);
        if (block == NULL)
            return 9;
        memset(block, 1, BLOCK_BYTES);
    }
    return 9;
}
