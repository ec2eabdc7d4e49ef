/*
 * Looks whether a pipe's write end is this process's alone: closes it, and asks the read end
 * whether anybody has it still. Does so in argv[1] images of itself, each right after its start,
 * and prints in how many nobody had. The write end is the last of thousands of descriptors.
 */
#include "burn.h"

#include <poll.h>
#include <sys/resource.h>

#define DESCRIPTORS_MIN 10000

static int is_ours_alone(int read_end, int write_end)
{
    struct pollfd end = {.fd = read_end, .events = POLLIN};

    close(write_end);
    return poll(&end, 1, 0) == 1 && (end.revents & POLLHUP) != 0;
}

int main(int argc, char **argv)
{
    long left = argument(argc, argv, 1, 1), alone = argument(argc, argv, 2, 0);
    char texts[2][24];
    int ends[2], last;
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < DESCRIPTORS_MIN)
        return 77;
    last = (int)(limit.rlim_max < 65536 ? limit.rlim_max : 65536) - 1;
    if (argc > 2)
        alone += is_ours_alone(last - 1, last);
    if (left == 0) {
        printf("%ld\n", alone);
        return 0;
    }
    limit.rlim_cur = (rlim_t)last + 1;
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0 || pipe(ends) != 0 || dup2(ends[0], last - 1) < 0 ||
        dup2(ends[1], last) < 0)
        return 99;
    close(ends[0]);
    close(ends[1]);
    snprintf(texts[0], sizeof(texts[0]), "%ld", left - 1);
    snprintf(texts[1], sizeof(texts[1]), "%ld", alone);
    execl(argv[0], argv[0], texts[0], texts[1], (char *)NULL);
    return 98;
}
