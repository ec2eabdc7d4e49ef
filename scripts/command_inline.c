/*
 * Inlined functions, put into profiles that are finished: by `selfsample inline FILE...`, and after
 * a run with --inline. The work is done by selfsample-inline, a program of its own that may use the
 * system's libdw, as the user whose file it is, and within limits.
 */
#include "command.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <grp.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "places.h"

#define PROGRAM "selfsample-inline"

enum {
    FILES_MAX = 256, /* for one process */
    CPU_SECONDS = 300,
    STACK_BYTES = 16 * 1024 * 1024, /* demanglers need much */
    DESCRIPTORS = 65536,            /* a file of code and its debug files stay open */
};

/* The last directory is for a command that is run from where it was built. */
static bool inline_find(char *path, size_t size)
{
    static const char *const beside[] = {"/../libexec", "/../lib/selfsample", "", NULL};
    return installed_find(PROGRAM, beside, SELFSAMPLE_LIBEXECDIR, X_OK, path, size);
}

/* Root puts on the rights of the file's owner: what the file names is opened, and read by a large
 * library. */
static bool owner_become(const struct stat *owner)
{
    if (geteuid() != 0 || owner->st_uid == 0)
        return true;
    return setgroups(0, NULL) == 0 && setgid(owner->st_gid) == 0 && setuid(owner->st_uid) == 0;
}

static void limit_set(int resource, rlim_t wanted, bool lower)
{
    struct rlimit limit;
    if (getrlimit(resource, &limit) != 0 || (!lower && limit.rlim_cur >= wanted))
        return;
    limit.rlim_cur = wanted < limit.rlim_max ? wanted : limit.rlim_max;
    setrlimit(resource, &limit);
}

/* In the child. */
_Noreturn static void inline_exec(const char *path, char **arguments, const struct stat *owner)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    unsetenv("LD_PRELOAD");
    limit_set(RLIMIT_CPU, CPU_SECONDS, true);
    limit_set(RLIMIT_STACK, STACK_BYTES, false);
    limit_set(RLIMIT_NOFILE, DESCRIPTORS, false);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    if (owner_become(owner))
        execv(path, arguments);
    _exit(STATUS_NOT_EXECUTABLE);
}

/* Why the program did not come to its end; NULL: it did, and has told what is to be told. */
static const char *failure_of(int status)
{
    if (WIFSIGNALED(status))
        return WTERMSIG(status) == SIGXCPU || WTERMSIG(status) == SIGKILL
                   ? "it took too long"
                   : strsignal(WTERMSIG(status));
    if (WEXITSTATUS(status) == STATUS_NOT_FOUND)
        return "is the library libdw installed (Debian: libdw1)?";
    return WEXITSTATUS(status) == STATUS_NOT_EXECUTABLE ? "it could not be run" : NULL;
}

/* ARGUMENTS: the program's name, COUNT files of one OWNER, NULL. */
static bool files_expand(char **arguments, size_t count, const struct stat *owner)
{
    char path[PATH_MAX];
    int status = 0;
    if (!inline_find(path, sizeof path)) {
        tell("inlined functions are not shown: %s, which is made where libdw-dev is installed, is "
             "neither in ../libexec nor in %s",
             PROGRAM, SELFSAMPLE_LIBEXECDIR);
        return false;
    }
    pid_t pid = fork();
    if (pid == 0)
        inline_exec(path, arguments, owner);
    while (pid > 0 && waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return false;
    const char *failure = pid < 0 ? strerror(errno) : failure_of(status);
    if (failure != NULL)
        tell(
            "inlined functions are not shown in %s%s: %s: %s; `selfsample inline FILE` tries again",
            arguments[1], count > 1 ? " and others" : "", PROGRAM, failure);
    return failure == NULL && WEXITSTATUS(status) == 0;
}

/* Files in the order given, as many of one owner as one process takes at a time. */
struct batch {
    char *arguments[FILES_MAX + 2];
    size_t count;
    struct stat owner;
    bool failed;
};

static void batch_end(struct batch *batch)
{
    static char name[] = PROGRAM;
    if (batch->count == 0)
        return;
    batch->arguments[0] = name;
    batch->arguments[batch->count + 1] = NULL;
    batch->failed |= !files_expand(batch->arguments, batch->count, &batch->owner);
    batch->count = 0;
}

static void batch_add(struct batch *batch, char *file)
{
    struct stat owner;
    if (lstat(file, &owner) != 0) {
        tell("%s: %s", file, strerror(errno));
        batch->failed = true;
        return;
    }
    if (batch->count == FILES_MAX || (batch->count > 0 && owner.st_uid != batch->owner.st_uid))
        batch_end(batch);
    batch->owner = owner;
    batch->arguments[++batch->count] = file;
}

void inline_apply(int argc, char **argv)
{
    static struct batch batch;
    if (argc < 2 || strcmp(argv[1], "inline") != 0)
        return;
    help_if_asked(argc, argv,
                  "usage: selfsample inline FILE...\n\n"
                  "Puts inlined functions into profiles that were written with\n"
                  "SELFSAMPLE_INLINE=yes, each with a file FILE.places beside it.\n\n");
    if (argc == 2)
        tell("usage: selfsample inline FILE...");
    for (int i = 2; i < argc; i++)
        batch_add(&batch, argv[i]);
    batch_end(&batch);
    exit(argc == 2 || batch.failed ? STATUS_FAILED : 0);
}

static bool has_places(const char *file)
{
    char path[PATH_MAX + sizeof PLACES_SUFFIX];
    snprintf(path, sizeof path, "%s%s", file, PLACES_SUFFIX);
    return access(path, F_OK) == 0;
}

void inline_reports(const struct reports *reports)
{
    static struct batch batch;
    const char *wanted = getenv("SELFSAMPLE_INLINE");
    if (wanted == NULL || wanted[0] == 0)
        return;
    for (size_t i = 0; i < reports->count; i++) {
        char *const *files;
        size_t count = report_files(&reports->list[i], &files);
        for (size_t part = 0; part < count; part++)
            if (has_places(files[part]))
                batch_add(&batch, files[part]);
    }
    batch_end(&batch);
}
