/*
 * Text and tables that others write, out of any bytes: lists of mappings, names of code made at run
 * time, the kernel's symbols and the table that is kept of them, a task's status. libFuzzer's
 * entry; the first byte chooses whose reader gets the rest.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kallsyms.h"
#include "kernel_table.h"
#include "perf_map.h"
#include "proc_maps.h"
#include "symbols.h"
#include "task_status.h"
#include "text.h"

#define PLACES      16u
#define LOOKS_MAX   64u
#define NAME_BYTES  256u
#define FINGERPRINT 0x4242424242424242u /* BBBBBBBB */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition)
        abort();
}

/* A file of these bytes; the readers get it by its path. */
static const char *file_of(const uint8_t *data, size_t bytes, int *fd)
{
    static char path[64];
    struct text text = text_over(path, sizeof path);
    *fd = memfd_create("fuzz", MFD_CLOEXEC);
    require(*fd >= 0 && pwrite(*fd, data, bytes, 0) == (ssize_t)bytes);
    text_put(&text, "/proc/self/fd/");
    text_put_u64(&text, (uint64_t)*fd);
    return path;
}

static void mapping_look(void *context, const struct proc_maps_entry *entry)
{
    uint64_t *sum = context;
    for (const char *at = entry->path; *at != '\0'; at++)
        *sum += (uint8_t)*at;
    *sum += entry->end - entry->start;
}

static void maps_read(const uint8_t *data, size_t bytes)
{
    uint64_t sum = 0;
    int fd;
    proc_maps_read(file_of(data, bytes, &fd), mapping_look, &sum);
    close(fd);
}

static void kallsyms_read(const uint8_t *data, size_t bytes)
{
    static struct kallsyms reader;
    struct symbol_request requests[PLACES] = {{0}};
    struct kallsyms_symbol symbol;
    struct arena names, scratch;
    int fd;
    const char *path = file_of(data, bytes, &fd);
    require(kallsyms_open(&reader, path) == 0);
    while (kallsyms_fill(&reader) > 0)
        while (kallsyms_next(&reader, &symbol))
            require(symbol.name_length > 0 && symbol.name_length <= KALLSYMS_NAME_BYTES &&
                    symbol.name >= reader.buffer &&
                    symbol.name + symbol.name_length <= reader.buffer + sizeof reader.buffer);
    kallsyms_close(&reader);
    arena_init(&names, 16u << 20);
    arena_init(&scratch, 16u << 20);
    for (unsigned i = 0; i < PLACES; i++)
        requests[i].vaddr = 0xffffffff80000000u + 0x100000u * i;
    kallsyms_resolve(path, requests, PLACES, &names, &scratch);
    arena_destroy(&names);
    arena_destroy(&scratch);
    close(fd);
}

static void table_read(const uint8_t *data, size_t bytes)
{
    struct kernel_table table;
    struct kernel_function function;
    int fd;
    file_of(data, bytes, &fd);
    if (kernel_table_open(&table, fd, FINGERPRINT) != 0) {
        close(fd);
        return;
    }
    for (unsigned i = 0; i < PLACES; i++)
        if (kernel_table_find(&table, table.header.base + 16 * i, &function))
            require(function.name_length < sizeof function.name &&
                    function.address <= table.header.base + 16 * i);
    kernel_table_close(&table);
}

static void status_read(const uint8_t *data, size_t bytes)
{
    static struct task_status status;
    if (task_status_parse(&status, (const char *)data, bytes))
        require(status.group_count <= TASK_STATUS_GROUPS_MAX);
}

static char directory[] = "/dev/shm/selfsample-fuzz-XXXXXX";

static void directory_remove(void)
{
    rmdir(directory);
}

/* It takes files only from a directory of their own; what comes in a second part was appended. */
static void perf_map_read(const uint8_t *data, size_t bytes)
{
    static char path[64];
    static struct perf_map map;
    if (path[0] == '\0') {
        struct text text = text_over(path, sizeof path);
        require(mkdtemp(directory) != NULL && atexit(directory_remove) == 0);
        text_put(&text, directory);
        text_put(&text, "/perf-1.map");
    }
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    require(fd >= 0 && write(fd, data, bytes / 2) == (ssize_t)(bytes / 2));
    bool settled;
    char name[NAME_BYTES];
    perf_map_init(&map, directory, 1);
    perf_map_find(&map, 0, 1, &settled);
    for (unsigned half = 0; half < 2; half++) {
        for (unsigned i = 0; i < LOOKS_MAX && perf_map_look(&map, 64); i++)
            ;
        for (unsigned i = 0; i < PLACES; i++) {
            uint32_t piece = perf_map_find(&map, 0x1000u * i, UINT64_MAX, &settled);
            struct text text = text_over(name, sizeof name);
            if (piece != CODE_NONE)
                perf_map_put_name(&map, piece, &text);
            for (const char *at = name; piece != CODE_NONE && *at != '\0'; at++)
                require(*at != ';' && (uint8_t)*at >= ' ');
        }
        require(write(fd, data + bytes / 2, bytes - bytes / 2) >= 0);
    }
    perf_map_close(&map);
    close(fd);
    unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static void (*const readers[])(const uint8_t *, size_t) = {maps_read, kallsyms_read, table_read,
                                                               status_read, perf_map_read};
    if (bytes > 0)
        readers[data[0] % (sizeof readers / sizeof *readers)](data + 1, bytes - 1);
    return 0;
}
