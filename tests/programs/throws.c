/*
 * A C program that loads a C++ plugin (argv[2]) and makes it throw, argv[3] times, the way argv[1]
 * says: inside (one thread, library kept open), across (through a frame of this program), churn
 * (one thread opens, looks up and closes the plugin over and over while three throw). All begin
 * anew until argv[4] seconds have passed, and none stops before.
 * Build: -pthread -ldl -fexceptions
 */
#include "burn.h"

#include <dlfcn.h>
#include <pthread.h>

static const char *plugin;
static long throws;
static time_t end_s;

static void *find(void *library, const char *name)
{
    void *symbol = dlsym(library, name);

    if (!symbol)
        abort();
    return symbol;
}

OWN_FRAME static void call_through(void (*function)(int), int number)
{
    function(number);
    NOT_LAST();
}

static long throw_by(void *library, int across)
{
    long (*inside_plugin)(long);
    long (*across_us)(long, void (*)(void (*)(int), int));

    *(void **)&inside_plugin = find(library, "throw_inside");
    *(void **)&across_us = find(library, "throw_across");
    return across ? across_us(throws, call_through) : inside_plugin(throws);
}

static time_t now_s(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static void *thrower(void *across)
{
    long caught;

    do {
        void *library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);

        if (!library)
            abort();
        caught = throw_by(library, across != NULL);
        dlclose(library);
    } while (caught == throws && now_s() < end_s);
    return (void *)caught;
}

static void *churn(void *stop)
{
    long rounds = 0;

    while (!*(volatile int *)stop) {
        void *library = dlopen("libm.so.6", RTLD_NOW | RTLD_LOCAL);

        if (!library || !dlsym(library, "cos"))
            abort();
        dlclose(library);
        library = dlopen(plugin, RTLD_LAZY | RTLD_LOCAL);
        find(library, "throw_inside");
        dlclose(library);
        rounds++;
    }
    return (void *)rounds;
}

static void with_churn(void)
{
    pthread_t threads[3], opener;
    int stop = 0;
    void *result;

    pthread_create(&opener, NULL, churn, &stop);
    for (int i = 0; i < 3; i++)
        pthread_create(&threads[i], NULL, thrower, i == 1 ? "across" : NULL);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], &result);
        printf("caught %ld\n", (long)result);
    }
    stop = 1;
    pthread_join(opener, &result);
    printf("opened: %s\n", (long)result > 10 ? "often" : "hardly");
}

int main(int argc, char **argv)
{
    const char *how = argc > 3 ? argv[1] : "";

    if (argc < 4)
        return 2;
    plugin = argv[2];
    throws = strtol(argv[3], NULL, 10);
    end_s = now_s() + argument(argc, argv, 4, 0);
    if (!strcmp(how, "churn"))
        with_churn();
    else
        printf("caught %ld\n", (long)thrower(strcmp(how, "across") ? NULL : "across"));
    return 0;
}
