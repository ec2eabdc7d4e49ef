/*
 * What a profiler could have left in a process: prints the number of descriptors and of tasks, of
 * mappings that hold sampling events or are of libunwind, and whether there is a child: of any
 * kind, with argv[2] only one that wait() would tell of. Must print the same bare, if it is not
 * profiled.
 */
#include "burn.h"
#include "inventory.h"

#include <errno.h>
#include <sys/wait.h>

BURNER(work)

int main(int argc, char **argv)
{
    int wait_for;

    work(argument(argc, argv, 1, 50) * 1000);
    printf("descriptors %d, tasks %d\n", entries_of("/proc/self/fd"),
           entries_of("/proc/self/task"));
    printf("mappings of events %d, of libunwind %d\n", mappings_with("perf_event"),
           mappings_with("libunwind"));
    wait_for = WNOHANG | (argc > 2 ? 0 : __WALL);
    printf("children: %s\n", waitpid(-1, NULL, wait_for) < 0 && errno == ECHILD ? "none" : "some");
    return 5;
}
