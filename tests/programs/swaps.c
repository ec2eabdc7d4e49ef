/*
 * Loads argv[1] and argv[2] in turn, argv[3] times each, calls plugin_run() of it for argv[4] and
 * argv[5] microseconds, and unloads it. The two are to come to the same address; leaves with 77 if
 * that was so in less than half of the times.
 * Build: -ldl
 */
#include "burn.h"

#include <dlfcn.h>

static void *last;
static long same;

OWN_FRAME void run_plugin(const char *path, long us);
OWN_FRAME void run_plugin(const char *path, long us)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void (*run)(long);

    if (!library)
        abort();
    *(void **)&run = dlsym(library, "plugin_run");
    run(us);
    same += (void *)run == last;
    last = (void *)run;
    if (dlclose(library))
        abort();
}

int main(int argc, char **argv)
{
    long times = argument(argc, argv, 3, 1);

    for (long i = 0; i < times; i++) {
        run_plugin(argv[1], argument(argc, argv, 4, 100));
        run_plugin(argv[2], argument(argc, argv, 5, 100));
    }
    return same < times ? 77 : 0;
}
