/*
 * What the tests of the ELF readers share: a directory that is removed at exit, programs run there
 * (compilers, binutils), and files opened as the helper opens them.
 */
#ifndef SELFSAMPLE_TESTS_ELF_FIXTURE_H
#define SELFSAMPLE_TESTS_ELF_FIXTURE_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "check.h"
#include "elf_file.h"

static char fixture_directory[64];

static void fixture_remove(void)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", fixture_directory);
    if (system(command) != 0)
        fprintf(stderr, "could not remove %s\n", fixture_directory);
}

/* The directory; made when it is first asked for. */
static inline const char *fixture_dir(void)
{
    if (fixture_directory[0] == '\0') {
        strcpy(fixture_directory, "/tmp/selfsample-unit-XXXXXX");
        if (mkdtemp(fixture_directory) == NULL)
            abort();
        atexit(fixture_remove);
    }
    return fixture_directory;
}

/* DIRECTORY/NAME, valid until the eighth call after this one. */
static inline const char *fixture_path(const char *name)
{
    static char paths[8][256];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, sizeof paths[0], "%s/%s", fixture_dir(), name);
    return path;
}

/* Runs a shell command in the directory; did it succeed? Its standard error goes nowhere. */
__attribute__((format(printf, 1, 2))) static inline bool fixture_run(const char *format, ...)
{
    char command[4096];
    int length =
        snprintf(command, sizeof command, "cd '%s' && exec 2>/dev/null && ", fixture_dir());
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    return system(command) == 0;
}

static inline void fixture_write(const char *name, const void *bytes, size_t count)
{
    FILE *file = fopen(fixture_path(name), "wb");
    if (file == NULL || fwrite(bytes, 1, count, file) != count || fclose(file) != 0)
        abort();
}

static inline void fixture_text(const char *name, const char *text)
{
    fixture_write(name, text, strlen(text));
}

/* Where this process has its vDSO, of *BYTES; skips the test where it has none. */
static inline const void *fixture_vdso(size_t *bytes)
{
    char line[512];
    unsigned long start = 0, end = 0;
    FILE *maps = fopen("/proc/self/maps", "r");
    REQUIRE(maps != NULL);
    while (fgets(line, sizeof line, maps) != NULL)
        if (strstr(line, "[vdso]") != NULL)
            sscanf(line, "%lx-%lx", &start, &end);
    fclose(maps);
    if (start == 0)
        SKIP("no vDSO");
    *bytes = end - start;
    return (const void *)start;
}

/* Calls LOOK for what MAKE makes with each linker that is here but the usual one. */
static inline void fixture_other_linkers(bool (*make)(const char *flags), void (*look)(void))
{
    static const char *const flags[] = {"-fuse-ld=gold", "-fuse-ld=lld", "-fuse-ld=mold"};
    unsigned made = 0;
    for (unsigned i = 0; i < sizeof flags / sizeof *flags; i++)
        if (make(flags[i])) {
            made++;
            look();
        }
    if (made == 0)
        SKIP("no other linker here");
}

/* From now on opens of that file of the directory are noticed, until fixture_was_opened(). */
static inline int fixture_watch_opens(const char *name)
{
    int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC);
    REQUIRE(watch >= 0 && inotify_add_watch(watch, fixture_path(name), IN_OPEN) >= 0);
    return watch;
}

static inline bool fixture_was_opened(int watch)
{
    char event[512];
    ssize_t got = read(watch, event, sizeof event);
    bool none = got == -1 && errno == EAGAIN;
    close(watch);
    return !none;
}

/* Starts a shell command in the directory whose output is read line by line. */
__attribute__((format(printf, 1, 2))) static inline FILE *fixture_output(const char *format, ...)
{
    char command[4096];
    int length = snprintf(command, sizeof command, "cd '%s' && ", fixture_dir());
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(command + length, sizeof command - (size_t)length, format, arguments);
    va_end(arguments);
    FILE *output = popen(command, "r");
    if (output == NULL)
        abort();
    return output;
}

/* The number a symbol has in a file of the directory, as nm(1) tells it; 0 where it is not there.
 */
static inline uint64_t fixture_symbol(const char *file, const char *symbol)
{
    char line[512], name[256], type;
    unsigned long value, found = 0;
    FILE *output = fixture_output("nm '%s'", file);
    while (fgets(line, sizeof line, output) != NULL)
        if (sscanf(line, "%lx %c %255s", &value, &type, name) == 3 && strcmp(name, symbol) == 0)
            found = value;
    pclose(output);
    return found;
}

/* The whole file, malloc'ed. */
static inline uint8_t *fixture_load(const char *path, size_t *bytes)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &status) != 0)
        abort();
    uint8_t *memory = malloc((size_t)status.st_size + 1);
    if (memory == NULL || read(fd, memory, (size_t)status.st_size) != status.st_size)
        abort();
    close(fd);
    *bytes = (size_t)status.st_size;
    return memory;
}

/* Opens and reads an ELF file; the descriptor, or -1 with what elf_file_read said in *ERROR. */
static inline int fixture_open(struct elf_file *file, const char *path, struct arena *arena,
                               int *error)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    *error = fd < 0 ? -errno : elf_file_read(file, elf_source_file(fd), arena);
    if (*error == 0 || fd < 0)
        return fd;
    close(fd);
    return -1;
}

/* Where the system keeps a library, as the compiler's linker finds it; resolved. */
static inline const char *fixture_library(const char *name)
{
    static char paths[4][512];
    static unsigned next;
    char *path = paths[next++ % 4];
    FILE *output = fixture_output("readlink -f \"$(${CC:-cc} -print-file-name='%s')\"", name);
    if (fgets(path, sizeof paths[0], output) == NULL)
        path[0] = '\0';
    pclose(output);
    path[strcspn(path, "\n")] = '\0';
    return path;
}

#endif
