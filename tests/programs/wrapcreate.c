/*
 * A library to preload that wraps pthread_create as well: every thread computes for 50 ms in
 * in_wrapper() before it runs its own function.
 * Build: -pthread -ldl
 */
#include "burn.h"

#include <dlfcn.h>
#include <pthread.h>

BURNER(in_wrapper)

struct start {
    void *(*function)(void *);
    void *argument;
};

static void *begin(void *memory)
{
    struct start start = *(struct start *)memory;

    free(memory);
    in_wrapper(50000);
    return start.function(start.argument);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*function)(void *),
                   void *argument)
{
    int (*real)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);
    struct start *start = malloc(sizeof(*start));

    *(void **)&real = dlsym(RTLD_NEXT, "pthread_create");
    if (!start || !real)
        abort();
    *start = (struct start){function, argument};
    return real(thread, attributes, begin, start);
}
