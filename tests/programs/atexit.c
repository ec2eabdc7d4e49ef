/* Computes in main, in an atexit handler and in a thread started there, 300 ms each.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>

BURNER(in_main)
BURNER(in_handler)
BURNER(in_handler_thread)

static void *body(void *unused)
{
    in_handler_thread(300000);
    return unused;
}

static void handler(void)
{
    pthread_t thread;

    in_handler(300000);
    if (!pthread_create(&thread, NULL, body, NULL))
        pthread_join(thread, NULL);
    puts("handled");
}

int main(void)
{
    atexit(handler);
    in_main(300000);
    return 0;
}
