/*
 * Threads and their names: main computes 200 ms as rename and 200 ms as renamed; two threads both
 * called twin compute 200 ms each.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

BURNER(before)
BURNER(after)
BURNER(in_twin)

static void *twin(void *unused)
{
    pthread_setname_np(pthread_self(), "twin");
    in_twin(200000);
    return unused;
}

int main(void)
{
    pthread_t twins[2];

    before(200000);
    pthread_setname_np(pthread_self(), "renamed");
    after(200000);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&twins[i], NULL, twin, NULL))
            return 1;
    for (int i = 0; i < 2; i++)
        pthread_join(twins[i], NULL);
    return 0;
}
