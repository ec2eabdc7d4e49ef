/*
 * Closes its first three descriptors, as some daemons do, so that a file of its own, "data" in the
 * working directory, becomes number 2. Computes for 50 ms there, and as long in a forked child.
 */
#include "burn.h"

#include <fcntl.h>
#include <sys/wait.h>

BURNER(in_parent)
BURNER(in_child)

int main(void)
{
    int status = 0;

    close(0);
    close(1);
    close(2);
    if (open("/dev/null", O_RDWR) != 0 || open("/dev/null", O_RDWR) != 1)
        return 1;
    if (open("data", O_RDWR | O_CREAT | O_TRUNC, 0644) != 2 || write(2, "payload\n", 8) != 8)
        return 2;
    in_parent(50000);
    if (!fork()) {
        in_child(50000);
        return 5;
    }
    wait(&status);
    return WEXITSTATUS(status);
}
