/*
 * argv[1] threads burn in before() until the process has used argv[2] ms of CPU time, when there is
 * a file `ready`, and argv[3] ms more. Then main executes this program anew, which burns 100 ms in
 * after() and writes into the file `used` how many us the process has used in the first main, and
 * in the second: its clock also has what is done before a main begins. Build: -pthread
 */
#include "burn.h"

#include <fcntl.h>
#include <pthread.h>

BURNER(before)
BURNER(after)

static void *body(void *unused)
{
    for (;;)
        before(1000);
    return unused;
}

static long start_us;

static long used_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000 - start_us;
}

static int again(const char *before_us)
{
    FILE *file;

    after(100000);
    file = fopen("used", "w");
    if (!file)
        return 1;
    fprintf(file, "%s %ld", before_us, used_us());
    return fclose(file) != 0;
}

static void wait_until_used(long ms)
{
    while (used_us() < ms * 1000)
        usleep(2000);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    char text[32];
    long ms = argument(argc, argv, 2, 100);

    start_us = used_us();
    if (argc > 2 && strcmp(argv[1], "again") == 0)
        return again(argv[2]);
    for (long i = 0; i < argument(argc, argv, 1, 2); i++)
        if (pthread_create(&thread, NULL, body, NULL) != 0)
            return 1;
    wait_until_used(ms);
    if (close(creat("ready", 0600)) != 0)
        return 1;
    wait_until_used(ms + argument(argc, argv, 3, 0));
    snprintf(text, sizeof(text), "%ld", used_us());
    execl("/proc/self/exe", "execthreads", "again", text, (char *)NULL);
    return 1;
}
