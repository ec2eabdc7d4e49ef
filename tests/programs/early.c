/*
 * A library that starts a thread in its constructor, before libraries preloaded after it are
 * initialized. The thread computes for 400 ms in in_early_thread(); the destructor joins it.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

BURNER(in_early_thread)

static pthread_t thread;

static void *body(void *unused)
{
    in_early_thread(400000);
    return unused;
}

__attribute__((constructor)) static void start(void)
{
    if (pthread_create(&thread, NULL, body, NULL))
        abort();
}

__attribute__((destructor)) static void join(void)
{
    pthread_join(thread, NULL);
}
