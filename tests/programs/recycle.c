/*
 * Two threads after one another with the same tid, brought about by /proc/sys/kernel/ns_last_pid:
 * the first is called first and computes in in_first(), the second likewise, 200 ms each. Leaves
 * with 77 if the tid could not be had again.
 * Build: -pthread
 */
#include "burn.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

BURNER(in_first)
BURNER(in_second)

static pid_t tids[2];

static void *first(void *unused)
{
    tids[0] = (pid_t)syscall(SYS_gettid);
    pthread_setname_np(pthread_self(), "first");
    in_first(200000);
    return unused;
}

static void *second(void *unused)
{
    tids[1] = (pid_t)syscall(SYS_gettid);
    if (tids[1] != tids[0])
        return unused;
    pthread_setname_np(pthread_self(), "second");
    in_second(200000);
    return unused;
}

static void next_tid_set(pid_t tid)
{
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);
    char text[16];
    int length = snprintf(text, sizeof(text), "%d", (int)tid - 1);

    if (fd < 0 || write(fd, text, (size_t)length) != length)
        exit(77);
    close(fd);
}

int main(void)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, first, NULL))
        return 1;
    pthread_join(thread, NULL);
    for (int tries = 0; tries < 50 && tids[1] != tids[0]; tries++) {
        next_tid_set(tids[0]);
        if (pthread_create(&thread, NULL, second, NULL))
            return 1;
        pthread_join(thread, NULL);
    }
    return tids[1] == tids[0] ? 0 : 77;
}
