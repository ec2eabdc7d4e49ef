/* What /proc tells of a process. */
#include "command.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* The name, in brackets, may hold brackets and spaces itself: it ends at the last one of the line.
 */
bool process_read(pid_t pid, struct process *process)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t length = read(fd, line, sizeof line - 1);
    close(fd);
    if (length <= 0)
        return false;
    line[length] = 0;
    char *name = strchr(line, '('), *name_end = strrchr(line, ')');
    int parent;
    unsigned long long start;
    if (name == NULL || name_end == NULL ||
        /* Fields 3, 4, 20, 22 and 38. */
        sscanf(name_end + 1,
               " %c %d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %ld %*d %llu"
               " %*u %*d %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %*u %d",
               &process->state, &parent, &process->threads, &start, &process->end_signal) != 5)
        return false;
    *name_end = 0;
    snprintf(process->name, sizeof process->name, "%s", name + 1);
    process->parent = parent;
    process->start_ticks = start;
    return true;
}
