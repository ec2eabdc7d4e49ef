/* Watches the process from outside. Runs in the helper; reads the app's memory and /proc. */
#include "process_watch.h"

#include <stddef.h>

#include "proc_tasks.h"
#include "sampling.h"
#include "sys.h"

#define LIBRARIES_MAX 4096u /* a list without end is none */
#define EXEC_LOOK_NS  50000000u
#define STAT_BYTES    1024u
#define NAME_BYTES    256u
#define PAGE_BYTES    4096u

/* The beginnings of libc's struct r_debug and struct link_map. */
struct linker_list {
    int version;
    uint64_t first;
};

struct library {
    uint64_t bias, name, dynamic, next;
};

void process_watch_init(struct process_watch *watch, const struct app_memory *memory,
                        uint64_t linker_list, pid_t app_pid)
{
    *watch =
        (struct process_watch){.memory = memory, .linker_list = linker_list, .app_pid = app_pid};
}

/* One that took another's place may differ in its name alone. Stands for up to NAME_BYTES of it. */
static uint64_t name_mix(const struct process_watch *watch, uint64_t name)
{
    char text[NAME_BYTES];
    uint64_t to_page_end = PAGE_BYTES - name % PAGE_BYTES, mixed = 0;
    size_t bytes = to_page_end < sizeof text ? (size_t)to_page_end : sizeof text;
    if (app_memory_copy(watch->memory, name, text, bytes) != 0)
        return 0;
    for (size_t i = 0; i < bytes && text[i] != '\0'; i++)
        mixed = mixed * 31 + (uint8_t)text[i];
    return mixed;
}

/* The app may be changing the list: then it is another at the next look. */
static uint64_t libraries_now(const struct process_watch *watch)
{
    struct linker_list list;
    uint64_t mixed = 1;
    if (watch->linker_list == 0 ||
        app_memory_copy(watch->memory, watch->linker_list, &list, sizeof list) != 0)
        return mixed;
    uint64_t at = list.first;
    for (unsigned i = 0; i < LIBRARIES_MAX && at != 0; i++) {
        struct library library;
        if (app_memory_copy(watch->memory, at, &library, sizeof library) != 0)
            break;
        mixed = sampling_mix(mixed ^ at ^ library.bias ^ library.dynamic << 1 ^
                             name_mix(watch, library.name) << 2);
        at = library.next;
    }
    return mixed;
}

bool process_watch_libraries(struct process_watch *watch)
{
    uint64_t now = libraries_now(watch), before = watch->libraries;
    watch->libraries = now;
    return now != before;
}

/* The fields that tell addresses, by their numbers in proc(5): code, stack, heap, arguments. */
static bool is_address_field(unsigned field)
{
    return field == 26 || field == 27 || field == 28 || field == 47 || field == 48 || field == 51;
}

uint64_t process_watch_layout(const char *stat, size_t bytes)
{
    size_t at = bytes;
    while (at > 0 && stat[at - 1] != ')') /* the name, field 2, may hold anything */
        at--;
    unsigned field = 2;
    uint64_t mixed = 1, value = 0, stack = 0;
    for (; at < bytes && at > 0; at++) {
        if (stat[at] != ' ' && stat[at] != '\n') {
            value = value * 10 + (uint64_t)(stat[at] - '0');
            continue;
        }
        if (is_address_field(field))
            mixed = sampling_mix(mixed ^ value);
        if (field == 28)
            stack = value;
        field++;
        value = 0;
    }
    return stack != 0 && field > 51 ? mixed : 0;
}

static uint64_t layout_read(const char *path)
{
    char stat[STAT_BYTES];
    int fd = sys_open(path, O_RDONLY, 0);
    if (fd < 0)
        return 0;
    long bytes = sys_read(fd, stat, sizeof stat);
    sys_close(fd);
    return bytes > 0 ? process_watch_layout(stat, (size_t)bytes) : 0;
}

bool process_watch_exec(struct process_watch *watch, bool at_once)
{
    uint64_t now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    if (watch->app_pid < 0 || (!at_once && now_ns - watch->looked_ns < EXEC_LOOK_NS))
        return false;
    watch->looked_ns = now_ns;
    char path[PROC_PATH_BYTES];
    proc_path(path, watch->app_pid, "/stat");
    uint64_t app = layout_read(path);
    if (app == 0 || app == watch->own_layout)
        return false;
    /* The first look; or the app has moved its arguments, as we see in our own. */
    watch->own_layout = layout_read("/proc/self/stat");
    return watch->own_layout != 0 && layout_read(path) != watch->own_layout &&
           layout_read(path) == app;
}
