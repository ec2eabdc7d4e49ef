/*
 * Threads that start and end in unusual ways, 100 ms of CPU time each in a function named after
 * the way: the smallest stack, a stack of our own, cancellation, pthread_exit, the destructor of
 * thread-specific data, a cleanup handler, a detached thread. One thread after the other.
 * Build: -pthread
 */
#include "burn.h"

#include <limits.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/mman.h>

BURNER(small_stack)
BURNER(own_stack)
BURNER(cancelled)
BURNER(exited)
BURNER(in_tsd_destructor)
BURNER(in_cleanup)
BURNER(detached)

static pthread_key_t key;
static sem_t ready, finished;

#define BODY(function)                                                                             \
    static void *function##_body(void *unused)                                                     \
    {                                                                                              \
        function(100000);                                                                          \
        return unused;                                                                             \
    }
BODY(small_stack)
BODY(own_stack)

static void tsd_destructor(void *unused)
{
    (void)unused;
    in_tsd_destructor(100000);
}

static void cleanup(void *unused)
{
    (void)unused;
    in_cleanup(100000);
}

static void *cancelled_body(void *unused)
{
    pthread_cleanup_push(cleanup, NULL);
    cancelled(100000);
    sem_post(&ready);
    for (;;)
        pause();
    pthread_cleanup_pop(0);
    return unused;
}

static void *exited_body(void *unused)
{
    (void)unused;
    pthread_setspecific(key, &key);
    exited(100000);
    pthread_exit((void *)7L);
}

static void *detached_body(void *unused)
{
    detached(100000);
    sem_post(&finished);
    return unused;
}

static void *join(const pthread_attr_t *attributes, void *(*body)(void *))
{
    pthread_t thread;
    void *value = NULL;

    if (pthread_create(&thread, attributes, body, NULL))
        abort();
    if (body == cancelled_body) {
        sem_wait(&ready);
        pthread_cancel(thread);
    }
    pthread_join(thread, &value);
    return value;
}

static void with_attributes(void)
{
    pthread_attr_t attributes;
    size_t bytes = 256 * 1024;
    void *stack = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    join(&attributes, small_stack_body);
    pthread_attr_init(&attributes);
    pthread_attr_setstack(&attributes, stack, bytes);
    join(&attributes, own_stack_body);
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    if (!pthread_create(&thread, &attributes, detached_body, NULL))
        sem_wait(&finished);
}

int main(void)
{
    sem_init(&ready, 0, 0);
    sem_init(&finished, 0, 0);
    pthread_key_create(&key, tsd_destructor);
    with_attributes();
    printf("cancelled: %d\n", join(NULL, cancelled_body) == PTHREAD_CANCELED);
    printf("exited: %ld\n", (long)join(NULL, exited_body));
    return 0;
}
