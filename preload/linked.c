/*
 * Asks libc's linker what it has loaded. Runs in the constructor; takes the linker's lock, as any
 * constructor's caller has it, and keeps nothing but the names that the linker keeps.
 */
#include "linked.h"

#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "../core/sys.h"

#define PAGE_BYTES 4096ull

static void code_note(struct linked *linked, const struct dl_phdr_info *info,
                      const ElfW(Phdr) * segment, const char *path)
{
    struct stat status;
    if (linked->count == LINKED_MAX)
        return;
    uint64_t start = (info->dlpi_addr + segment->p_vaddr) & ~(PAGE_BYTES - 1);
    uint64_t end = info->dlpi_addr + segment->p_vaddr + segment->p_memsz;
    linked->code[linked->count++] = (struct linked_code){
        .start = start,
        .bytes = ((end + PAGE_BYTES - 1) & ~(PAGE_BYTES - 1)) - start,
        .file_offset = segment->p_offset & ~(PAGE_BYTES - 1),
        .inode = sys4(SYS_newfstatat, AT_FDCWD, path, &status, 0) == 0 ? status.st_ino : 0,
        .path = path,
    };
}

/* The linker does not name the program; the kernel does, as it was asked for it. */
static void program_name(struct linked *linked)
{
    const char *program = (const char *)getauxval(AT_EXECFN);
    size_t length = 0;
    if (program == NULL)
        program = "program";
    if (program[0] != '/' && getcwd(linked->program_path, LINKED_PATH_BYTES - 1) != NULL) {
        length = strlen(linked->program_path);
        linked->program_path[length++] = '/';
    }
    if (length + strlen(program) < LINKED_PATH_BYTES)
        strcpy(linked->program_path + length, program);
}

static const char *path_of(const struct linked *linked, const struct dl_phdr_info *info)
{
    /* The vDSO is the one that lies where the kernel says it does. */
    if (info->dlpi_addr == getauxval(AT_SYSINFO_EHDR))
        return "[vdso]";
    return info->dlpi_name[0] != '\0' ? info->dlpi_name : linked->program_path;
}

static int object_note(struct dl_phdr_info *info, size_t bytes, void *context)
{
    (void)bytes;
    for (unsigned i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && (info->dlpi_phdr[i].p_flags & PF_X) != 0)
            code_note(context, info, &info->dlpi_phdr[i], path_of(context, info));
    return 0;
}

void linked_note(struct linked *linked)
{
    if (access("/proc/self/maps", R_OK) == 0)
        return;
    program_name(linked);
    dl_iterate_phdr(object_note, linked);
}

/* glibc has the one, which link.h declares, and musl the other. */
#pragma weak _r_debug
extern struct r_debug *_dl_debug_addr __attribute__((weak));

const struct r_debug *linked_list(void)
{
    if (&_r_debug != NULL)
        return &_r_debug;
    return &_dl_debug_addr != NULL ? _dl_debug_addr : NULL;
}
