/*
 * Uses half a second of CPU time, the second half in another place, as argv[1] says:
 * chdir (to /), chroot (into argv[2]), rmdir (removes its own directory).
 */
#include "burn.h"

#include <sys/stat.h>

BURNER(work)

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    char here[4096];
    int failed = 0;

    work(250000);
    if (!strcmp(how, "chdir"))
        failed = chdir("/");
    else if (!strcmp(how, "chroot") && argc > 2)
        failed = chroot(argv[2]) || chdir("/");
    else if (!strcmp(how, "rmdir"))
        failed = !getcwd(here, sizeof(here)) || rmdir(here);
    work(250000);
    printf("%d\n", failed);
    return failed;
}
