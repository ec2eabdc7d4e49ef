/* Where libselfsample.so lies: beside the command, in ../lib of it, or where it was installed. */
#include "command.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LIBRARY_NAME "libselfsample.so"

/* The directory of this executable, without a slash at its end. */
static int own_directory(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    if (length <= 0)
        return -1;
    path[length] = 0;
    char *slash = strrchr(path, '/');
    if (slash == NULL)
        return -1;
    *slash = 0;
    return 0;
}

bool installed_find(const char *name, const char *const *beside, const char *installed, int mode,
                    char *path, size_t size)
{
    char directory[PATH_MAX], candidate[PATH_MAX + 64];
    bool known = own_directory(directory, sizeof directory) == 0;
    for (size_t i = 0; known && beside[i] != NULL; i++) {
        snprintf(candidate, sizeof candidate, "%s%s/%s", directory, beside[i], name);
        if (access(candidate, mode) == 0 && realpath(candidate, path) != NULL)
            return true;
    }
    snprintf(path, size, "%s/%s", installed, name);
    return access(path, mode) == 0;
}

int library_preload(void)
{
    static const char *const beside[] = {"", "/../lib", "/../lib64", "/../lib/selfsample", NULL};
    char path[PATH_MAX];
    if (!installed_find(LIBRARY_NAME, beside, SELFSAMPLE_LIBDIR, R_OK, path, sizeof path)) {
        tell("%s is neither beside this command nor in ../lib nor in %s", LIBRARY_NAME,
             SELFSAMPLE_LIBDIR);
        return -1;
    }
    if (strpbrk(path, " :") != NULL) {
        tell("%s: the loader splits LD_PRELOAD at spaces and colons; move the library", path);
        return -1;
    }
    /* Ours comes last: AddressSanitizer wants to be first, and what other libraries put around
     * pthread_create is then within our hook. */
    const char *others = getenv("LD_PRELOAD");
    char *list = NULL;
    bool alone = others == NULL || others[0] == 0;
    if (asprintf(&list, "%s%s%s", alone ? "" : others, alone ? "" : ":", path) < 0 ||
        setenv("LD_PRELOAD", list, 1) != 0) {
        tell("LD_PRELOAD: %s", strerror(errno));
        return -1;
    }
    free(list);
    return 0;
}

/* Is PROGRAM in the directory DIRECTORY of LENGTH bytes? In an empty one, which is where we are. */
static bool directory_has(const char *directory, int length, const char *program, char *found,
                          size_t size)
{
    struct stat status;
    const char *slash = length > 0 ? "/" : "";
    size_t needed = (size_t)snprintf(found, size, "%.*s%s%s", length, directory, slash, program);
    return needed < size && stat(found, &status) == 0 && S_ISREG(status.st_mode) &&
           access(found, X_OK) == 0;
}

bool path_search(const char *program, char *found, size_t size)
{
    if (strchr(program, '/') != NULL)
        return (size_t)snprintf(found, size, "%s", program) < size;
    const char *path = getenv("PATH"), *end;
    if (path == NULL)
        path = "/bin:/usr/bin"; /* as execvp has it */
    do {
        end = path + strcspn(path, ":");
        if (directory_has(path, (int)(end - path), program, found, size))
            return true;
        path = end + 1;
    } while (*end != 0);
    return false;
}
