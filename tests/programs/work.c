/* Uses argv[1] microseconds of CPU time in work(), then leaves with status argv[2]. */
#include "burn.h"

BURNER(work)

int main(int argc, char **argv)
{
    work(argument(argc, argv, 1, 0));
    return (int)argument(argc, argv, 2, 0);
}
