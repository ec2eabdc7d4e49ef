/*
 * A library whose destructor computes and starts a thread: CPU time after main and after exit.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

BURNER(in_destructor)
BURNER(in_destructor_thread)

static void *body(void *unused)
{
    in_destructor_thread(300000);
    return unused;
}

__attribute__((destructor)) static void late(void)
{
    pthread_t thread;

    in_destructor(300000);
    if (!pthread_create(&thread, NULL, body, NULL))
        pthread_join(thread, NULL);
    NOT_LAST();
}
