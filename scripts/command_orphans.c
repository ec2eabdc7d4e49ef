/*
 * Processes of a run that live on though the program has ended, and have not told of themselves: a
 * program that goes to the background has ended before the helper of the process that it left there
 * is at work. They are known by the FIFO's name, which all that come of a run have in their
 * environment.
 */
#include "command.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "helper.h"

#define KTHREADD 2 /* the parent of the kernel's own threads */

/* What /proc lists as a process of the run: its environment names the FIFO. One that is just being
 * executed has none yet. False where it is another user's, whom nobody here may ask. */
static bool is_of_run(pid_t pid, const char *wanted)
{
    char path[64], *variable = NULL;
    size_t room = 0, count = 0;
    bool found = false;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return false;
    while (!found && getdelim(&variable, &room, 0, file) > 0) {
        found = strcmp(variable, wanted) == 0;
        count++;
    }
    found |= count == 0 && ferror(file) == 0;
    free(variable);
    fclose(file);
    return found;
}

/* Is PID a process that a run may have left, one that can yet begin a profile? Helpers are not. */
static bool is_candidate(pid_t pid, uint64_t own_start_ticks)
{
    struct process process;
    return pid > 0 && pid != getpid() && process_read(pid, &process) &&
           process.start_ticks >= own_start_ticks && process.parent != KTHREADD &&
           strchr("ZX", process.state) == NULL && strcmp(process.name, HELPER_NAME) != 0;
}

bool orphan_is_there(const struct reports *reports)
{
    char wanted[PATH_MAX + 64];
    struct process own;
    struct dirent *entry;
    bool found = false;
    DIR *processes = opendir("/proc");
    if (processes == NULL || !process_read(getpid(), &own)) {
        if (processes != NULL)
            closedir(processes);
        return false;
    }
    snprintf(wanted, sizeof wanted, "SELFSAMPLE_REPORT=%s/report", reports->directory);
    while (!found && (entry = readdir(processes)) != NULL) {
        pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
        found = is_candidate(pid, own.start_ticks) && !reports_is_open(reports, pid) &&
                is_of_run(pid, wanted);
    }
    closedir(processes);
    return found;
}
