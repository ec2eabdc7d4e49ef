/* An OpenMP loop on 4 threads, 200 ms of CPU time each in in_loop().
 * Build: -fopenmp
 */
#include "burn.h"

BURNER(in_loop)

int main(void)
{
#pragma omp parallel for num_threads(4) schedule(static, 1)
    for (int i = 0; i < 4; i++)
        in_loop(200000);
    puts("done");
    return 0;
}
