/*
 * What a process has, as /proc tells it: for test programs that look for what a profiler left.
 */
#ifndef INVENTORY_H
#define INVENTORY_H

#include <dirent.h>
#include <stdio.h>
#include <string.h>

/* Of /proc/self/fd, the one that reads it included. */
static inline int entries_of(const char *directory)
{
    DIR *stream = opendir(directory);
    int entries = 0;

    while (stream && readdir(stream))
        entries++;
    if (stream)
        closedir(stream);
    return entries;
}

/* How many lines of /proc/self/maps TEXT is in; "": all. */
static inline int mappings_with(const char *text)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    char line[8192]; /* a path is shorter */
    int found = 0;

    while (maps && fgets(line, sizeof(line), maps))
        found += strstr(line, text) != NULL;
    if (maps)
        fclose(maps);
    return found;
}

#endif
