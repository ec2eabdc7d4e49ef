/*
 * Where the profiles and the page of a run will lie, as far as that is known before it, and whether
 * files can be made there. Makes none, so that a disk that is full shows only at the end.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "outfile.h"
#include "outpath.h"

static void say_nothing(void *context, const char *line)
{
    (void)context;
    (void)line;
}

/* Cuts PATH after its last slash; "" is the directory where we are. */
static void directory_of(char *path)
{
    path[outpath_base(path) - path] = 0;
}

/* The file of PATTERN in the process that FACTS tell of; "DIR/" for one of the default name. */
static void path_expand(const char *pattern, const struct outpath_facts *facts,
                        char file[OUTPATH_BYTES])
{
    static char names[OUTPATH_BYTES];
    struct text expanded = text_over(names, sizeof names);
    struct text path = text_over(file, OUTPATH_BYTES);
    outpath_expand(&expanded, pattern, facts, say_nothing, NULL);
    if (!outpath_number(&path, names, (uint64_t)facts->pid) && outfile_is_directory(file))
        text_put_char(&path, '/');
}

/* The files of two processes that have nothing in common. */
static void paths_expand(char file[OUTPATH_BYTES], char other[OUTPATH_BYTES])
{
    static struct config config;
    struct outpath_facts facts = {
        .pid = 1, .program = "a", .host = "a", .ending = "", .environment = environ};
    options_of_environment(&config);
    path_expand(config.out_pattern, &facts, file);
    facts.pid = 2;
    facts.program = facts.host = "b";
    facts.start_seconds = 1;
    path_expand(config.out_pattern, &facts, other);
}

bool out_directory_find(char directory[OUTPATH_BYTES])
{
    static char other[OUTPATH_BYTES];
    paths_expand(directory, other);
    directory_of(directory);
    directory_of(other);
    return strcmp(directory, other) == 0;
}

/* Is what all processes would write to something that can't be a profile, as /dev/null? */
static bool out_is_no_file(void)
{
    static char file[OUTPATH_BYTES], other[OUTPATH_BYTES];
    paths_expand(file, other);
    return strcmp(file, other) == 0 && outfile_is_special(AT_FDCWD, file);
}

/* As an errno: why no file can be made in DIRECTORY. 0: nothing known speaks against it. */
static int directory_error(const char *directory)
{
    struct stat status;
    const char *path = directory[0] != 0 ? directory : ".";
    if (stat(path, &status) != 0)
        return errno;
    if (!S_ISDIR(status.st_mode))
        return ENOTDIR;
    return access(path, W_OK | X_OK) == 0 ? 0 : errno;
}

/* WHAT was said of the place of the profiles can't be done, because of PLACE if that is not NULL:
 * ends the process. */
_Noreturn static void out_refuse(const char *what, const char *place, const char *why)
{
    tell("%s%s: %s%s%s; the program was not run", what, getenv(CONFIG_PREFIX "OUT"),
         place ? place : "", place ? ": " : "", why);
    exit(STATUS_USAGE);
}

void out_place_judge(bool by_option)
{
    char directory[OUTPATH_BYTES];
    const char *out = getenv(CONFIG_PREFIX "OUT");
    const char *what = by_option ? "--out " : CONFIG_PREFIX "OUT=";
    if (out != NULL && strcmp(out, "-") == 0)
        out_refuse(what, NULL, "profiles go to files, and stdout is the program's own");
    if (out_is_no_file())
        out_refuse(what, NULL, "not a file, and nothing is written in place of it");
    int error = out_directory_find(directory) ? directory_error(directory) : 0;
    if (error == 0)
        return;
    if (out != NULL && *out != 0)
        out_refuse(what, directory[0] ? directory : ".",
                   error == ENOENT    ? "no such directory"
                   : error == ENOTDIR ? "not a directory"
                                      : strerror(error));
    tell("no profile can be written to this directory: %s; --out DIRECTORY/ says another one; "
         "the program was not run",
         strerror(error));
    exit(STATUS_USAGE);
}

void page_place_judge(const char *page)
{
    char directory[PATH_MAX];
    struct stat status;
    int error = 0;
    if (strcmp(page, "-") == 0)
        return;
    snprintf(directory, sizeof directory, "%s", page);
    directory_of(directory);
    if (stat(page, &status) != 0)
        error = directory_error(directory);
    else if (S_ISDIR(status.st_mode))
        error = EISDIR;
    else if (access(page, W_OK) != 0)
        error = errno;
    if (error == 0)
        return;
    tell("--flamegraph=%s: %s; the program was not run", page, strerror(error));
    exit(STATUS_USAGE);
}
