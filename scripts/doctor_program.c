/* What a program's file allows, read by the library's own readers of ELF files. Runs nothing. */
#include "command.h"
#include "doctor.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arena.h"
#include "debug_file.h"
#include "elf_file.h"
#include "elf_symtab.h"

enum {
    ARENA_BYTES_MAX = 256 * 1024 * 1024,
    SCRIPTS_MAX = 4, /* one the interpreter of another; more the kernel does not follow */
};

/* One ELF file under examination. */
struct subject {
    const char *path;
    struct elf_file file, debug; /* the latter where there is a separate one */
    bool has_debug_file;
    struct arena arena;
};

static bool has_section(const struct elf_file *file, const char *name)
{
    struct elf_section section;
    return elf_section_find(file, name, &section) && section.in_file;
}

static size_t functions_count(const struct elf_file *file, enum elf_section_kind kind,
                              struct arena *arena)
{
    struct elf_symtab symtab;
    struct elf_symbol symbol;
    size_t count = 0;
    if (elf_symtab_open(&symtab, file, kind, arena) != 0)
        return 0;
    while (elf_symtab_next(&symtab, &symbol))
        count += !symbol.label;
    return count;
}

static void examine_names(struct subject *subject)
{
    struct elf_section section;
    if (elf_section_find_kind(&subject->file, ELF_SECTION_SYMTAB, &section) && section.in_file) {
        finding(HEALTH_OK, "function names", NULL, "%zu functions, in the file itself (.symtab)",
                functions_count(&subject->file, ELF_SECTION_SYMTAB, &subject->arena));
    } else if (subject->has_debug_file) {
        finding(HEALTH_OK, "function names", NULL,
                "stripped; %zu functions, in the separate debug file",
                functions_count(&subject->debug, ELF_SECTION_SYMTAB, &subject->arena));
    } else if (has_section(&subject->file, ".gnu_debugdata")) {
        finding(HEALTH_OK, "function names", NULL, "stripped, but for a packed table of names");
    } else {
        finding(HEALTH_LIMITED, "function names",
                "debug symbols: PACKAGE-dbgsym of Debian's archive debian-debug "
                "(find-dbgsym-packages PROGRAM, of debian-goodies, says which); or compile without "
                "-s and do not strip",
                "stripped: %zu exported functions have names, others are shown by offset",
                functions_count(&subject->file, ELF_SECTION_DYNSYM, &subject->arena));
    }
}

static void examine_debug(const struct subject *subject)
{
    if (has_section(&subject->file, ".debug_info") ||
        (subject->has_debug_file && has_section(&subject->debug, ".debug_info")))
        finding(HEALTH_OK, "debug information", NULL, "there is some, for --inline");
    else
        finding(HEALTH_LIMITED, "debug information", "compile with -g, or install debug symbols",
                "none: --inline has nothing to show");
}

/* Where a debugger, too, would look for what was stripped. */
static void examine_identity(const struct subject *subject)
{
    char id[2 * ELF_BUILD_ID_BYTES + 1] = "none";
    for (size_t i = 0; i < subject->file.build_id_bytes; i++)
        snprintf(id + 2 * i, 3, "%02x", subject->file.build_id[i]);
    finding(HEALTH_OK, "build id", NULL, "%s; debug link: %s; separate debug file: %s", id,
            has_section(&subject->file, ".gnu_debuglink") ? "yes" : "none",
            subject->has_debug_file ? "found" : "none below " DEBUG_FILE_DIRECTORY);
}

static void examine_tables(const struct subject *subject)
{
    if (subject->file.eh_frame_hdr_bytes != 0 || has_section(&subject->file, ".debug_frame"))
        finding(HEALTH_OK, "unwind tables", NULL, "there; frame pointers are not needed");
    else
        finding(HEALTH_LIMITED, "unwind tables",
                "compile with -fasynchronous-unwind-tables or -fno-omit-frame-pointer",
                "none: stacks are whole only if it keeps frame pointers, which no file tells");
}

/* Whose libc this command, and with it the library, was built with. */
#ifdef __GLIBC__
static const bool built_with_glibc = true;
#else
static const bool built_with_glibc = false;
#endif

static void examine_loader(const struct subject *subject)
{
    struct elf_section section;
    char loader[PATH_MAX] = "";
    if (elf_section_find(&subject->file, ".interp", &section) && section.bytes < sizeof loader)
        elf_source_read_all(&subject->file.source, section.offset, loader, section.bytes);
    if ((strstr(loader, "musl") == NULL) != built_with_glibc)
        finding(HEALTH_NO, "loader", "a libselfsample.so that was built with its libc",
                "%s: this library was built with %s", loader, built_with_glibc ? "glibc" : "musl");
    else
        finding(HEALTH_OK, "loader", NULL, "%s", loader[0] != 0 ? loader : "not told");
}

/* BY_SCRIPT: as the interpreter of one, which has been told. */
static void examine_elf(const char *path, int fd, bool by_script)
{
    struct subject subject = {.path = path};
    arena_init(&subject.arena, ARENA_BYTES_MAX);
    if (elf_file_read(&subject.file, elf_source_file(fd), &subject.arena) != 0) {
        finding(HEALTH_NO, "program", NULL, "%s: neither a program of this machine nor a script",
                path);
        return;
    }
    if (!by_script)
        finding(HEALTH_OK, "program", NULL, "%s is linked dynamically, and runs with your rights",
                path);
    int debug_fd =
        debug_file_open(&subject.debug, &subject.file, path, DEBUG_FILE_DIRECTORY, &subject.arena);
    subject.has_debug_file = debug_fd >= 0;
    examine_loader(&subject);
    examine_names(&subject);
    examine_debug(&subject);
    examine_identity(&subject);
    examine_tables(&subject);
    if (debug_fd >= 0)
        close(debug_fd);
    arena_destroy(&subject.arena);
}

void program_examine(const char *program)
{
    char path[PATH_MAX], interpreter[PATH_MAX];
    struct stat status;
    if (!path_search(program, path, sizeof path)) {
        finding(HEALTH_NO, "program", NULL, "%s: no such program in PATH", program);
        return;
    }
    if (access(path, R_OK) != 0 || stat(path, &status) != 0 || !S_ISREG(status.st_mode)) {
        finding(HEALTH_NO, "program", NULL, "%s: there is no such file, or it can't be read", path);
        return;
    }
    const char *refusal = program_refusal(path);
    if (refusal != NULL) {
        finding(HEALTH_NO, "program", NULL, "%s: %s", path, refusal);
        return;
    }
    bool is_script = false;
    for (int i = 0; i < SCRIPTS_MAX && interpreter_of(path, interpreter, sizeof interpreter); i++) {
        finding(HEALTH_OK, "program", NULL, "%s is a script of %s", path, interpreter);
        snprintf(path, sizeof path, "%s", interpreter);
        is_script = true;
    }
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    examine_elf(path, fd, is_script);
    close(fd);
}
