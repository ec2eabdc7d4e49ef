/*
 * A daemon of the old school: forks twice, leaves its session, goes to /, closes every descriptor
 * from 3 up and points 0 to 2 at /dev/null. Then it computes for 300 ms in in_daemon().
 */
#include "burn.h"

#include <fcntl.h>
#include <sys/wait.h>

BURNER(in_daemon)
BURNER(in_front)

static void close_all(void)
{
    long limit = sysconf(_SC_OPEN_MAX);

    for (int fd = 3; fd < limit && fd < 65536; fd++)
        close(fd);
    close_range(3, ~0U, 0);
}

int main(void)
{
    int null;

    in_front(100000);
    if (fork()) {
        wait(NULL);
        puts("started");
        return 0;
    }
    setsid();
    if (fork())
        _exit(0);
    if (chdir("/"))
        return 1;
    close_all();
    null = open("/dev/null", O_RDWR);
    if (null != 3)
        return 2;
    dup2(null, 0);
    dup2(null, 1);
    dup2(null, 2);
    in_daemon(300000);
    return 0;
}
