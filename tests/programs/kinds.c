/*
 * A thread that computes for 400 ms in in_thread(), made the way argv[1] says: c11 (thrd_create),
 * glib (g_thread_new of a glib opened at run time), timer (SIGEV_THREAD), pthread. With argv[2], of
 * pthread or c11: so many threads one after the other, that share the 400 ms.
 * Build: -pthread -ldl -lrt
 */
#include "burn.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <threads.h>

BURNER(in_thread)

static sem_t finished;
static long life_us = 400000;

static void *body(void *unused)
{
    in_thread(life_us);
    sem_post(&finished);
    return unused;
}

static int c11_body(void *unused)
{
    body(unused);
    return 0;
}

static void timer_body(union sigval unused)
{
    body(unused.sival_ptr);
}

static int start_c11(void)
{
    thrd_t thread;

    return thrd_create(&thread, c11_body, NULL) != thrd_success;
}

static int start_glib(void)
{
    void *glib = dlopen("libglib-2.0.so.0", RTLD_NOW);
    void *(*thread_new)(const char *, void *(*)(void *), void *);

    if (!glib)
        return 77;
    *(void **)&thread_new = dlsym(glib, "g_thread_new");
    return !thread_new || !thread_new("worker", body, NULL);
}

static int start_timer(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = timer_body};
    struct itimerspec soon = {.it_value = {.tv_nsec = 1000000}};
    timer_t timer;

    return timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &soon, NULL);
}

static int start_pthread(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, body, NULL);
}

static int pthread_joined(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, body, NULL) || pthread_join(thread, NULL);
}

static int c11_joined(void)
{
    thrd_t thread;

    return thrd_create(&thread, c11_body, NULL) != thrd_success ||
           thrd_join(thread, NULL) != thrd_success;
}

static int many(const char *kind, long count)
{
    life_us /= count;
    for (long i = 0; i < count; i++)
        if (!strcmp(kind, "c11") ? c11_joined() : pthread_joined())
            return 1;
    puts("joined");
    return 0;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "pthread";
    int failed;

    sem_init(&finished, 0, 0);
    if (argc > 2)
        return many(kind, argument(argc, argv, 2, 1));
    failed = !strcmp(kind, "c11")     ? start_c11()
             : !strcmp(kind, "glib")  ? start_glib()
             : !strcmp(kind, "timer") ? start_timer()
                                      : start_pthread();
    if (failed)
        return failed;
    while (sem_wait(&finished))
        ;
    puts("finished");
    return 0;
}
