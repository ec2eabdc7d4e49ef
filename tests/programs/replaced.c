/*
 * Shows what becomes of a program or a library that is no more where it was when its first sample
 * is taken. argv[1]:
 *
 *     exe PATH            the program removes PATH, its own file
 *     exe PATH OTHER      the program renames OTHER to PATH
 *     library PATH        loads PATH and removes it
 *     library PATH OTHER  loads PATH and renames OTHER to it
 *     memory PATH         loads a copy of PATH out of a memory file, which stays open
 *     closed PATH         the same, and closes it
 *
 * Then it computes for 400 ms, in own_work() or in plugin_run() of the library.
 * Build: -ldl
 */
#include "burn.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>

BURNER(own_work)

static void fail(const char *what)
{
    perror(what);
    exit(2);
}

static void *load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        fail(dlerror());
    return library;
}

static void *load_memory(const char *path, int keep)
{
    static char bytes[1 << 20];
    char link[64];
    int in = open(path, O_RDONLY), fd = memfd_create("library", 0);
    ssize_t length = read(in, bytes, sizeof(bytes));
    void *library;

    if (in < 0 || fd < 0 || length <= 0 || write(fd, bytes, (size_t)length) != length)
        fail("memory");
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    library = load(link);
    if (!keep)
        close(fd);
    return library;
}

int main(int argc, char **argv)
{
    void *library = NULL;
    void (*run)(long) = own_work;

    if (argc < 3)
        return 2;
    if (!strcmp(argv[1], "memory") || !strcmp(argv[1], "closed"))
        library = load_memory(argv[2], !strcmp(argv[1], "memory"));
    else if (!strcmp(argv[1], "library"))
        library = load(argv[2]);
    if (!strcmp(argv[1], "library") || !strcmp(argv[1], "exe"))
        if (argc > 3 ? rename(argv[3], argv[2]) : unlink(argv[2]))
            fail(argv[2]);
    if (library)
        *(void **)&run = dlsym(library, "plugin_run");
    run(400000);
    return 0;
}
