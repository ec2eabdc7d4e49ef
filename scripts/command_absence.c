/*
 * Why a program was run and the library said nothing: what can be known from its file and from the
 * options. Opens the file, runs nothing.
 */
#include "command.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "arch.h"
#include "config.h"
#include "event.h"
#include "outpath.h"
#include "pattern.h"
#include "session.h"

enum { SCRIPT_LINE_BYTES = 256 }; /* more of its first line the kernel does not read either */

/* A dynamically linked program names its loader. */
static bool names_loader(int fd, const Elf64_Ehdr *header)
{
    for (unsigned i = 0; i < header->e_phnum; i++) {
        Elf64_Phdr segment;
        off_t offset = (off_t)(header->e_phoff + i * sizeof segment);
        if (pread(fd, &segment, sizeof segment, offset) != (ssize_t)sizeof segment)
            return true;
        if (segment.p_type == PT_INTERP)
            return true;
    }
    return false;
}

/* Would we get another user or group by running it? Who has these already runs it as any program.
 */
static bool gives_rights(const struct stat *status)
{
    bool other_user = (status->st_mode & S_ISUID) != 0 && status->st_uid != getuid();
    bool other_group = (status->st_mode & S_ISGID) != 0 && status->st_gid != getgid();
    return other_user || other_group;
}

/* Of a program that is no script. NULL: nothing in it speaks against a preload. */
static const char *reason_by_file(int fd)
{
    Elf64_Ehdr header;
    struct stat status;
    if (fstat(fd, &status) != 0 || pread(fd, &header, sizeof header, 0) != (ssize_t)sizeof header ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
        return NULL;
    if (gives_rights(&status))
        return "it is a setuid program, into which the loader preloads nothing";
    if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
        return "its file has capabilities, as a setuid program, and into such the loader preloads "
               "nothing";
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != ARCH_ELF_MACHINE)
        return "it is a program of another architecture than the library";
    if (!names_loader(fd, &header))
        return "it is linked statically, so that no loader can preload anything";
    return NULL;
}

/* The program that env(1) looks for, of the words of a first line behind it that strtok_r has in
 * REST. NULL: none. */
static const char *word_behind_env(char **rest)
{
    const char *word;
    while ((word = strtok_r(NULL, " \t", rest)) != NULL)
        if (word[0] != '-' && strchr(word, '=') == NULL)
            return word;
    return NULL;
}

/* The interpreter that the script FD names in its first line; where that is env, what env runs. */
static bool interpreter_find(int fd, char *found, size_t size)
{
    char line[SCRIPT_LINE_BYTES];
    ssize_t bytes = pread(fd, line, sizeof line - 1, 0);
    if (bytes < 3 || line[0] != '#' || line[1] != '!')
        return false;
    line[bytes] = 0;
    line[strcspn(line, "\n")] = 0;
    char *rest = NULL, *interpreter = strtok_r(line + 2, " \t", &rest);
    if (interpreter == NULL)
        return false;
    const char *behind =
        strcmp(outpath_base(interpreter), "env") == 0 ? word_behind_env(&rest) : NULL;
    return (behind != NULL && path_search(behind, found, size)) ||
           path_search(interpreter, found, size);
}

static const char *reason_by_interpreter(int script_fd)
{
    static char text[PATH_MAX + 256];
    char interpreter[PATH_MAX];
    if (!interpreter_find(script_fd, interpreter, sizeof interpreter))
        return NULL;
    int fd = open(interpreter, O_RDONLY | O_CLOEXEC);
    const char *reason = fd >= 0 ? reason_by_file(fd) : NULL;
    if (fd >= 0)
        close(fd);
    if (reason == NULL)
        return NULL;
    snprintf(text, sizeof text, "it is a script, and of its interpreter %s holds: %s", interpreter,
             reason);
    return text;
}

/* NULL: the options leave NAME in. */
static const char *reason_by_options(const char *name)
{
    static struct config config;
    static char text[CONFIG_ONLY_BYTES + 256];
    options_of_environment(&config);
    if (config.only[0] != 0 && !pattern_list_match(config.only, name)) {
        snprintf(text, sizeof text,
                 "--only (SELFSAMPLE_ONLY) is '%s', which matches neither its name nor that of a "
                 "program that it ran",
                 config.only);
        return text;
    }
    if (!config.enabled)
        return "SELFSAMPLE_ENABLED is no, and it did not call selfsample_start";
    if (config.only[0] == 0 && pattern_list_match(SESSION_TRACERS, name))
        return "a debugger or tracer is not profiled itself, unless --only (SELFSAMPLE_ONLY) "
               "names it";
    return NULL;
}

const char *program_refusal(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return NULL;
    const char *reason = reason_by_file(fd);
    if (reason == NULL)
        reason = reason_by_interpreter(fd);
    close(fd);
    return reason;
}

bool interpreter_of(const char *path, char *found, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool is_script = fd >= 0 && interpreter_find(fd, found, size);
    if (fd >= 0)
        close(fd);
    return is_script;
}

const char *library_absence_reason(const char *program)
{
    char path[PATH_MAX];
    const char *reason = reason_by_options(outpath_base(program));
    if (reason == NULL && path_search(program, path, sizeof path))
        reason = program_refusal(path);
    struct event_traits traits;
    if (reason == NULL && event_probe(&traits, false) != 0)
        reason = "the kernel refuses sampling here; `selfsample doctor` tells more";
    return reason
               ? reason
               : "it ended before it could (a sanitizer that has to be loaded first ends it), or "
                 "was run without LD_PRELOAD";
}
