/*
 * selfsample-inline FILE...: see inline.h. Run by `selfsample inline` and at the end of a run with
 * --inline. Exit status 1 if a file could not be done.
 */
#include "inline.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

void tell(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("selfsample: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
}

int main(int argc, char **argv)
{
    struct expansion expansion = {0};
    bool all = true;
    if (argc < 2) {
        tell("usage: selfsample inline FILE...");
        return 1;
    }
    /* Debug information that is not on this machine is not fetched from anywhere. */
    unsetenv("DEBUGINFOD_URLS");
    for (int i = 1; i < argc; i++)
        all &= profile_expand(argv[i], &expansion);
    if (expansion.modules != 0)
        tell("inlined functions: debug information for %zu of %zu files of code",
             expansion.modules_with_debug, expansion.modules);
    return all ? 0 : 1;
}
