/* The files of a process: one, or a series of which each has what is new since the one before. */
#include "command.h"
#include "views.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PARTS_MAX = 1000000 }; /* of a process */

void report_add_part(struct report *report, const char *path)
{
    char **parts;
    if (report->part_count > 0 && strcmp(report->parts[report->part_count - 1], path) == 0)
        return;
    if (report->part_count == PARTS_MAX ||
        (parts = reallocarray(report->parts, report->part_count + 1, sizeof *parts)) == NULL)
        return;
    report->parts = parts;
    if ((parts[report->part_count] = strdup(path)) != NULL)
        report->part_count++;
}

size_t report_files(const struct report *report, char *const **files)
{
    *files = report->part_count > 0 ? report->parts : &report->file;
    return report->part_count > 0 ? report->part_count : report->file != NULL;
}

/* How many bytes all COUNT of NAMES begin with, and end with behind those. */
static void ends_in_common(char *const *names, size_t count, size_t *first, size_t *last)
{
    *first = *last = strlen(names[0]);
    for (size_t i = 1; i < count; i++) {
        size_t length = strlen(names[i]), whole = strlen(names[0]), same = 0;
        while (same < *first && names[i][same] == names[0][same])
            same++;
        *first = same;
        for (same = 0; same < *last && same < length - *first && same < whole - *first; same++)
            if (names[i][length - 1 - same] != names[0][whole - 1 - same])
                break;
        *last = same;
    }
    size_t whole = strlen(names[0]);
    if (*last > whole - *first)
        *last = whole - *first;
}

void report_word(const struct report *report, char *word, size_t size)
{
    char *const *files;
    size_t count = report_files(report, &files), first, last;
    if (count < 2) {
        shell_word(path_from_here(files[0]), word, size);
        return;
    }
    ends_in_common(files, count, &first, &last);
    char *begin = memory_or_end(strndup(files[0], first));
    const char *end = files[0] + strlen(files[0]) - last;
    shell_word(path_from_here(begin), word, size);
    size_t used = strlen(word);
    if (used + 1 < size) {
        word[used] = '*';
        shell_word(end, word + used + 1, size - used - 1);
    }
    free(begin);
}
