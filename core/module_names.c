/* Asks one source of names after the other. Runs in the helper, when a profile is written. */
#include "module_names.h"

#include "arena.h"
#include "debug_file.h"
#include "debugdata.h"
#include "demangle.h"
#include "elf_file.h"
#include "fde_range.h"
#include "plt_names.h"
#include "sys.h"

/* What all sources are asked for. */
struct asking {
    const struct elf_file *file;
    struct fde_ranges ranges;
    struct symbol_request *requests;
    size_t count;
    struct arena *names;
    struct arena *scratch;
};

static void symbols_ask(struct asking *asking, const struct elf_file *file,
                        enum symbols_table table)
{
    /* An error means that this source has nothing, or not everything; the next one is asked. */
    symbols_resolve(file, table, &asking->ranges, asking->requests, asking->count, asking->names,
                    asking->scratch);
}

static void debug_file_ask(struct asking *asking, const char *path)
{
    struct elf_file debug;
    struct arena_mark mark = arena_mark(asking->scratch);
    int fd = debug_file_open(&debug, asking->file, path != NULL ? path : "", DEBUG_FILE_DIRECTORY,
                             asking->scratch);
    if (fd < 0)
        return;
    symbols_ask(asking, &debug, SYMBOLS_SYMTAB);
    sys_close(fd);
    arena_release(asking->scratch, mark);
}

static void debugdata_ask(struct asking *asking)
{
    struct elf_file debug;
    struct arena_mark mark = arena_mark(asking->scratch);
    if (debugdata_open(&debug, asking->file, asking->scratch) == 0)
        symbols_ask(asking, &debug, SYMBOLS_SYMTAB);
    arena_release(asking->scratch, mark);
}

static bool all_named(const struct asking *asking)
{
    for (size_t i = 0; i < asking->count; i++) {
        if (asking->requests[i].name == NULL)
            return false;
    }
    return true;
}

static void sources_ask(struct asking *asking, const char *path)
{
    debug_file_ask(asking, path);
    if (!all_named(asking))
        symbols_ask(asking, asking->file, SYMBOLS_SYMTAB);
    if (!all_named(asking))
        debugdata_ask(asking);
    if (!all_named(asking))
        symbols_ask(asking, asking->file, SYMBOLS_DYNSYM);
}

static void names_demangle(struct asking *asking)
{
    const char *last = NULL, *demangled = NULL; /* requests of one symbol stand in a row */
    for (size_t i = 0; i < asking->count; i++) {
        struct symbol_request *request = &asking->requests[i];
        if (request->name == NULL)
            continue;
        if (request->name != last) {
            last = request->name;
            demangled = demangle(last, asking->names, asking->scratch);
        }
        request->name = demangled;
    }
}

static void starts_find(struct asking *asking)
{
    uint64_t start = 0, end = 0;
    for (size_t i = 0; i < asking->count; i++) {
        struct symbol_request *request = &asking->requests[i];
        if (request->name != NULL)
            continue;
        bool covered = request->vaddr >= start && request->vaddr < end;
        if (!covered)
            covered = fde_range_find(&asking->ranges, request->vaddr, &start, &end);
        request->start_vaddr = covered ? start : request->vaddr;
    }
}

void module_names_resolve(const struct elf_file *file, const char *path,
                          struct symbol_request *requests, size_t count, struct arena *names,
                          struct arena *scratch)
{
    struct asking asking = {
        .file = file, .requests = requests, .count = count, .names = names, .scratch = scratch};
    struct arena_mark mark = arena_mark(scratch);
    fde_ranges_open(&asking.ranges, file, scratch);
    sources_ask(&asking, path);
    names_demangle(&asking);
    if (!all_named(&asking))
        plt_names_resolve(file, requests, count, names, scratch);
    starts_find(&asking);
    arena_release(scratch, mark);
}
