/*
 * Two threads burn 200 ms each and then go on slowly while main, after 200 ms of its own,
 * executes `true`.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <semaphore.h>

BURNER(in_main)
BURNER(in_burner)

static sem_t burnt;

static void *body(void *unused)
{
    in_burner(200000);
    sem_post(&burnt);
    for (;;)
        usleep(1000);
    return unused;
}

int main(void)
{
    pthread_t thread;

    sem_init(&burnt, 0, 0);
    for (int i = 0; i < 2; i++)
        if (pthread_create(&thread, NULL, body, NULL))
            return 1;
    in_main(200000);
    for (int i = 0; i < 2; i++)
        sem_wait(&burnt);
    execl("/bin/true", "true", (char *)NULL);
    return 1;
}
