/* Calls exported() of liboneexport.so for argv[1] ms. */
#include "burn.h"

void exported(long ms);

int main(int argc, char **argv)
{
    exported(argument(argc, argv, 1, 1000));
    return 0;
}
