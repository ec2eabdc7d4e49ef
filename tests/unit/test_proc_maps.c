/* proc_maps: this process's own map, and lines of every form. */
#include "proc_maps.h"

#include <unistd.h>

#include "elf_fixture.h"

#define ENTRIES_MAX 16u

struct seen {
    unsigned count;
    struct proc_maps_entry entries[ENTRIES_MAX];
    char paths[ENTRIES_MAX][64]; /* the start of each */
    size_t path_lengths[ENTRIES_MAX];
};

static void note(void *context, const struct proc_maps_entry *entry)
{
    struct seen *seen = context;
    if (seen->count < ENTRIES_MAX) {
        seen->entries[seen->count] = *entry;
        seen->path_lengths[seen->count] = strlen(entry->path);
        snprintf(seen->paths[seen->count], sizeof seen->paths[0], "%s", entry->path);
    }
    seen->count++;
}

static struct seen read_text(const char *text)
{
    struct seen seen = {.count = 0};
    fixture_text("maps", text);
    CHECK_I64(proc_maps_read(fixture_path("maps"), note, &seen), 0);
    return seen;
}

TEST(lines_as_the_kernel_writes_them)
{
    struct seen seen = read_text(
        "7f12a4000000-7f12a4021000 r-xp 0001f000 fd:01 1314    /usr/lib/a b.so (deleted)\n"
        "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]\n"
        "00400000-00401000 rw-p 00000000 00:00 0 \n");
    REQUIRE(seen.count == 3);
    CHECK_U64(seen.entries[0].start, 0x7f12a4000000);
    CHECK_U64(seen.entries[0].end, 0x7f12a4021000);
    CHECK_U64(seen.entries[0].file_offset, 0x1f000);
    CHECK_U64(seen.entries[0].inode, 1314);
    CHECK(seen.entries[0].executable);
    CHECK_STR(seen.paths[0], "/usr/lib/a b.so (deleted)");
    CHECK_U64(seen.entries[1].start, 0xffffffffff600000);
    CHECK(seen.entries[1].executable);
    CHECK_STR(seen.paths[1], "[vsyscall]");
    CHECK(!seen.entries[2].executable);
    CHECK_U64(seen.entries[2].inode, 0);
    CHECK_STR(seen.paths[2], "");
}

TEST(lines_of_no_such_form_are_left_out)
{
    struct seen seen = read_text("\n"
                                 "hello\n"
                                 "1000-2000\n"
                                 "1000-2000 r-\n"
                                 "1000-2000 r-xp\n"
                                 "1000-2000 r-xp 0 fd:01\n"
                                 "1000-2000 r-xp 0 fd:01 x\n"
                                 "2000-1000 r-xp 0 fd:01 5 /backwards\n"
                                 "1000-1000 r-xp 0 fd:01 5 /empty\n"
                                 "-2000 r-xp 0 fd:01 5 /no-start\n"
                                 "1000-2000 r-xp 0 fd:01 5 /good\n");
    REQUIRE(seen.count == 1);
    CHECK_STR(seen.paths[0], "/good");
}

/* Longer than PATH_MAX: dropped, and what follows is read. The longest path there is is read. */
TEST(long_lines)
{
    char *text = malloc(20000), *at = text;
    REQUIRE(text != NULL);
    at += sprintf(at, "1000-2000 r-xp 0 fd:01 5 /");
    memset(at, 'x', 4094);
    at += 4094;
    at += sprintf(at, "\n3000-4000 r-xp 0 fd:01 6 /");
    memset(at, 'y', 12000);
    at += 12000;
    sprintf(at, "\n5000-6000 r-xp 0 fd:01 7 /behind\n");
    struct seen seen = read_text(text);
    free(text);
    REQUIRE(seen.count == 2);
    CHECK_U64(seen.path_lengths[0], 4095);
    CHECK_STR(seen.paths[1], "/behind");
}

struct search {
    uint64_t address;
    unsigned found;
    bool executable;
    char path[512];
    uint64_t last_end;
    bool in_order;
};

static void look_for(void *context, const struct proc_maps_entry *entry)
{
    struct search *search = context;
    search->in_order = search->in_order && entry->start >= search->last_end;
    search->last_end = entry->end;
    if (search->address < entry->start || search->address >= entry->end)
        return;
    search->found++;
    search->executable = entry->executable;
    snprintf(search->path, sizeof search->path, "%s", entry->path);
}

TEST(this_process)
{
    char program[512];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    REQUIRE(length > 0);
    program[length] = '\0';
    struct search code = {.address = (uint64_t)(uintptr_t)look_for, .in_order = true};
    CHECK_I64(proc_maps_read("/proc/self/maps", look_for, &code), 0);
    CHECK_U64(code.found, 1);
    CHECK(code.executable && code.in_order);
    CHECK_STR(code.path, program);
    struct search data = {.address = (uint64_t)(uintptr_t)&code, .in_order = true};
    CHECK_I64(proc_maps_read("/proc/self/maps", look_for, &data), 0);
    CHECK_U64(data.found, 1);
    CHECK(!data.executable);
}

TEST(no_such_file)
{
    struct seen seen = {.count = 0};
    CHECK_I64(proc_maps_read("/nonexistent", note, &seen), -ENOENT);
    CHECK_I64(proc_maps_read("/proc", note, &seen), -EISDIR);
    CHECK_U64(seen.count, 0);
}
