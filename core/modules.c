/* The module map. Runs in the helper; reads files and /proc, never the app's memory directly. */
#include "modules.h"

#include "descriptors.h"
#include "elf_pages.h"
#include "proc_maps.h"
#include "proc_tasks.h"
#include "sys.h"
#include "text.h"

/* Where a made-up unwind table is said to lie: within the 2 GiB that its offsets reach, and away
 * from where the libraries of one program usually are. */
#define TABLE_DISTANCE 0x60000000ull

#define VDSO_BYTES_MAX 65536u

void modules_init(struct modules *modules, struct arena *arena, struct app_memory *memory,
                  uint64_t our_address)
{
    *modules = (struct modules){.arena = arena, .memory = memory, .our_address = our_address};
    sequence_init(&modules->list, arena, sizeof(struct module));
    modules->regions = arena_alloc_array(arena, MODULES_REGIONS_MAX, sizeof *modules->regions);
    modules->pages = elf_pages_make(arena);
}

struct module *modules_at(const struct modules *modules, uint32_t index)
{
    return sequence_at(&modules->list, index);
}

static enum module_kind kind_of(const char *path)
{
    if (text_equal(path, "[vdso]"))
        return MODULE_VDSO;
    /* "//anon", "[heap]", "[anon:name]" and the empty path: no file. */
    return path[0] == '/' && path[1] != '/' ? MODULE_FILE : MODULE_ANONYMOUS;
}

static uint64_t known_ns(const struct modules *modules)
{
    return modules->scanning ? UINT64_MAX : sys_clock_ns(CLOCK_REALTIME);
}

/* The module of that file, or a new one; UINT32_MAX where memory is short. */
static uint32_t module_for(struct modules *modules, uint64_t inode, const char *path,
                           uint64_t start)
{
    enum module_kind kind = kind_of(path);
    for (uint32_t i = modules_count(modules); i-- > 0;) {
        struct module *module = modules_at(modules, i);
        if (module->kind != kind)
            continue;
        if (kind != MODULE_FILE)
            return i;
        if (module->inode != inode || !text_equal(module->path, path))
            continue;
        if (!module->prepared) {
            module->mapped_at = start;
            module->known_ns = known_ns(modules);
        }
        return i;
    }
    const char *kept = arena_copy_text(modules->arena, path, __builtin_strlen(path));
    struct module *module = kept != NULL ? sequence_append(&modules->list) : NULL;
    if (module == NULL)
        return UINT32_MAX;
    *module = (struct module){.kind = kind,
                              .path = kept,
                              .inode = inode,
                              .mapped_at = start,
                              .known_ns = known_ns(modules),
                              .fd = -1};
    return modules_count(modules) - 1;
}

/* The first region that ends above ADDRESS. */
static uint32_t region_above(const struct modules *modules, uint64_t address)
{
    uint32_t low = 0, high = modules->region_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (modules->regions[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Makes room for COUNT regions where REPLACED stand at INDEX. False where there is no room. */
static bool regions_splice(struct modules *modules, uint32_t index, uint32_t replaced,
                           uint32_t count)
{
    if (modules->region_count - replaced + count > MODULES_REGIONS_MAX)
        return false;
    struct region *at = modules->regions + index;
    __builtin_memmove(at + count, at + replaced,
                      (modules->region_count - index - replaced) * sizeof *at);
    modules->region_count += count - replaced;
    return true;
}

/* What is kept of the code at REGION is void. */
static void stale_add(struct modules *modules, const struct region *region)
{
    struct module_span *stale = &modules->stale;
    modules->replaced++;
    if (stale->end == 0)
        stale->start = region->start;
    stale->start = region->start < stale->start ? region->start : stale->start;
    stale->end = region->end > stale->end ? region->end : stale->end;
}

/* Is REGION code without a file where there was nothing but such? JIT compilers change their pages'
 * protection all the time, and what is kept of that code goes by its age, but that there is no rule
 * for it. */
static bool is_made_again(const struct modules *modules, uint32_t first, uint32_t last,
                          const struct region *region)
{
    if (modules_at(modules, region->module)->kind != MODULE_ANONYMOUS)
        return false;
    for (uint32_t i = first; i < last; i++)
        if (modules->regions[i].module != region->module)
            return false;
    return true;
}

/* Enters REGION; of those it overlaps, what sticks out on either side stays. */
static void region_enter(struct modules *modules, const struct region *region)
{
    uint32_t first = region_above(modules, region->start);
    uint32_t last = first;
    while (last < modules->region_count && modules->regions[last].start < region->end)
        last++;
    struct region pieces[3];
    uint32_t count = 0;
    if (last > first && modules->regions[first].start < region->start) {
        pieces[count] = modules->regions[first];
        pieces[count++].end = region->start;
    }
    pieces[count++] = *region;
    if (last > first && modules->regions[last - 1].end > region->end) {
        pieces[count] = modules->regions[last - 1];
        pieces[count].file_offset += region->end - pieces[count].start;
        pieces[count++].start = region->end;
    }
    bool keeps = is_made_again(modules, first, last, region);
    if (!regions_splice(modules, first, last - first, count))
        return;
    if (last > first && !keeps)
        stale_add(modules, region);
    __builtin_memcpy(modules->regions + first, pieces, count * sizeof *pieces);
}

void modules_map(struct modules *modules, uint64_t start, uint64_t bytes, uint64_t file_offset,
                 uint64_t inode, const char *path)
{
    if (modules->regions == NULL || bytes == 0 || start + bytes < start)
        return;
    uint32_t index = module_for(modules, inode, path, start);
    if (index == UINT32_MAX)
        return;
    struct module *module = modules_at(modules, index);
    if (modules->our_address >= start && modules->our_address < start + bytes)
        module->ours = true;
    const struct region *old = NULL;
    uint32_t above = region_above(modules, start);
    if (above < modules->region_count)
        old = &modules->regions[above];
    /* The same again, as a scan after a record shows it: nothing has changed. */
    if (old != NULL && old->start == start && old->end == start + bytes && old->module == index &&
        old->file_offset == file_offset)
        return;
    struct region region = {
        .start = start, .end = start + bytes, .file_offset = file_offset, .module = index};
    region_enter(modules, &region);
}

static void scan_entry(void *context, const struct proc_maps_entry *entry)
{
    if (entry->executable && !text_equal(entry->path, "[vsyscall]"))
        modules_map(context, entry->start, entry->end - entry->start, entry->file_offset,
                    entry->inode, entry->path);
}

/* Once: what was loaded since is in records, and what was removed would be entered anew. */
static int linked_enter(struct modules *modules)
{
    const struct linked *linked = modules->linked;
    for (uint32_t i = 0; i < linked->count; i++) {
        const struct linked_code *code = &linked->code[i];
        modules_map(modules, code->start, code->bytes, code->file_offset, code->inode, code->path);
    }
    modules->linked = NULL;
    return linked->count > 0 ? 0 : -ENOENT;
}

/* Is this very code among what was found? Emulators tell of the program's memory in some files of
 * /proc, and of their own in others. */
static bool knows_own_code(const struct modules *modules)
{
    uint64_t here = (uint64_t)(uintptr_t)knows_own_code;
    uint32_t index = region_above(modules, here);
    return index < modules->region_count && modules->regions[index].start <= here;
}

int modules_scan(struct modules *modules)
{
    modules->scanning = true;
    int result = proc_maps_read("/proc/thread-self/maps", scan_entry, modules);
    if (result == 0 && !knows_own_code(modules))
        result = proc_maps_read("/proc/self/maps", scan_entry, modules);
    if (result != 0 && modules->linked != NULL)
        result = linked_enter(modules);
    modules->scanning = false;
    return result;
}

/* Where the page with the headers of ELF is mapped: before the code, by the same distance in memory
 * as in the file. */
static uint64_t image_base(const struct module *module, const struct elf_file *elf)
{
    uint64_t first_code = 0;
    for (uint32_t i = 0; i < elf->segment_count && first_code == 0; i++)
        if (elf->segments[i].executable)
            first_code = elf->segments[i].vaddr & ~(uint64_t)(sys_page_bytes() - 1);
    return module->mapped_at - first_code + elf->segments[0].vaddr;
}

/* Is what is mapped the file ELF? By the build ids, where both have one, else by the first page.
 * For files whose inode does not tell (overlay file systems, a library copied over itself, or
 * written anew). */
static bool same_image(const struct modules *modules, const struct module *module,
                       const struct elf_file *elf)
{
    struct arena scratch;
    arena_init(&scratch, 4 * 1024 * 1024);
    struct elf_file mapped;
    uint8_t *image = arena_alloc(&scratch, 4096);
    uint8_t *page = arena_alloc(&scratch, 4096);
    bool same = image != NULL && page != NULL && elf->segment_count > 0 &&
                app_memory_copy(modules->memory, image_base(module, elf), image, 4096) == 0 &&
                elf_file_read(&mapped, elf_source_memory(image, 4096), &scratch) == 0;
    if (same && elf->build_id_bytes != 0 && mapped.build_id_bytes != 0)
        same = elf_file_same_build_id(elf, &mapped);
    else if (same)
        same = elf_source_read_all(&elf->source, 0, page, 4096) &&
               __builtin_memcmp(image, page, 4096) == 0;
    arena_destroy(&scratch);
    return same;
}

/* Is ELF, with that STATUS, what was mapped? The inode of a file that is mapped is no other's on
 * its file system, which the path tells if it is not a link; once it is not mapped any more, a new
 * file may have it. */
static bool is_mapped_file(const struct modules *modules, const struct module *module,
                           const struct elf_file *elf, const struct stat *status, bool is_link)
{
    uint64_t changed_ns =
        (uint64_t)status->st_ctim.tv_sec * 1000000000u + (uint64_t)status->st_ctim.tv_nsec;
    if (!is_link && status->st_ino == module->inode && changed_ns <= module->known_ns)
        return true;
    return same_image(modules, module, elf);
}

static void prepare_vdso(struct modules *modules, struct module *module)
{
    uint8_t *image = arena_alloc(modules->arena, VDSO_BYTES_MAX);
    uint64_t bytes = 0;
    while (image != NULL && bytes < VDSO_BYTES_MAX &&
           app_memory_copy(modules->memory, module->mapped_at + bytes, image + bytes, 4096) == 0)
        bytes += 4096;
    module->has_elf = bytes > 0 && elf_file_read(&module->elf, elf_source_memory(image, bytes),
                                                 modules->arena) == 0;
}

/* Opens PATH for the module if its file is there. IS_LINK: by a link of the kernel's to what
 * is mapped. */
static bool file_open(struct modules *modules, struct module *module, const char *path,
                      bool is_link)
{
    struct stat status;
    struct elf_file elf;
    int fd = elf_source_open(path);
    if (fd < 0)
        return false;
    struct elf_source source = elf_source_file(fd);
    source.pages = modules->pages;
    bool usable = !descriptor_is_spare(fd) && sys_fstat(fd, &status) == 0 &&
                  (!is_link || status.st_ino == module->inode) &&
                  elf_file_read(&elf, source, modules->arena) == 0 &&
                  is_mapped_file(modules, module, &elf, &status, is_link);
    if (!usable) {
        if (modules->pages != NULL) /* they go by the descriptor's number */
            elf_pages_forget(modules->pages);
        sys_close(fd);
        return false;
    }
    module->fd = fd;
    module->elf = elf;
    module->has_elf = true;
    return true;
}

#define DESCRIPTORS_MAX 4096u

struct descriptor_search {
    struct modules *modules;
    struct module *module;
    uint32_t tries;
};

/* Opens what the app has open as FD, if it is the module's file; nothing else is opened, since that
 * may have effects. */
static void descriptor_try(void *context, int fd)
{
    struct descriptor_search *search = context;
    char buffer[64];
    struct stat status;
    struct text path = text_over(buffer, sizeof buffer);
    if (search->module->has_elf || search->tries++ >= DESCRIPTORS_MAX)
        return;
    text_put(&path, "/proc/");
    text_put_i64(&path, search->modules->app_pid);
    text_put(&path, "/fd/");
    text_put_i64(&path, fd);
    if (sys4(SYS_newfstatat, AT_FDCWD, buffer, &status, 0) == 0 &&
        (status.st_mode & S_IFMT) == S_IFREG && status.st_ino == search->module->inode)
        file_open(search->modules, search->module, buffer, true);
}

static void prepare_file(struct modules *modules, struct module *module,
                         const struct region *region)
{
    char buffer[96];
    struct descriptor_search search = {modules, module, 0};
    struct text path = text_over(buffer, sizeof buffer);
    text_put(&path, "/proc/self/map_files/");
    text_put_hex(&path, region->start);
    text_put_char(&path, '-');
    text_put_hex(&path, region->end);
    /* Deleted or replaced before it was sampled, or never had a path. What is mapped and nothing
     * more is for the privileged only. */
    if (!file_open(modules, module, module->path, false) &&
        !file_open(modules, module, "/proc/thread-self/exe", true) &&
        !file_open(modules, module, buffer, true))
        proc_descriptors_read(modules->app_pid, descriptor_try, &search);
}

/* Once, whatever comes of it: large sections are read for it. */
static void prepare_table(struct modules *modules, struct module *module,
                          const struct region *region)
{
    struct arena scratch;
    module->table_tried = true;
    if (!cfi_table_needed(&module->elf))
        return;
    arena_init(&scratch, 256u * 1024 * 1024);
    uint64_t base = (region->start & ~4095ull) + TABLE_DISTANCE;
    if (cfi_table_build(&module->table, &module->elf, region->bias, base, modules->arena,
                        &scratch) == 0) {
        module->table_base = base;
        modules->made_up_tables++;
    }
    arena_destroy(&scratch);
}

static void region_prepare(struct modules *modules, struct region *region)
{
    struct module *module = modules_at(modules, region->module);
    if (!module->prepared) {
        module->prepared = true;
        if (module->kind == MODULE_FILE)
            prepare_file(modules, module, region);
        else if (module->kind == MODULE_VDSO)
            prepare_vdso(modules, module);
        module->has_hdr = module->has_elf && cfi_hdr_read(&module->hdr, &module->elf) == 0;
    }
    uint64_t vaddr;
    region->bias_known = true;
    if (!module->has_elf || !elf_file_offset_to_vaddr(&module->elf, region->file_offset, &vaddr))
        return;
    region->bias = region->start - vaddr;
    if (!module->table_tried && !module->ours)
        prepare_table(modules, module, region);
}

struct region *modules_find(struct modules *modules, uint64_t address)
{
    uint32_t index = region_above(modules, address);
    if (index >= modules->region_count || modules->regions[index].start > address)
        return NULL;
    struct region *region = &modules->regions[index];
    if (!region->bias_known)
        region_prepare(modules, region);
    return region;
}

/* The segment of the file that REGION is a part of, or the region itself, if ADDRESS is there. */
static struct module_span region_span(struct modules *modules, struct region *region,
                                      uint64_t address)
{
    const struct module *module = modules_at(modules, region->module);
    /* Of a file that is in use this may be a segment of code that was never sampled. */
    if (module->prepared && !region->bias_known)
        region_prepare(modules, region);
    if (address >= region->start && address < region->end)
        return (struct module_span){region->start, region->end};
    for (uint32_t i = 0; region->bias_known && module->has_elf && i < module->elf.segment_count;
         i++) {
        const struct elf_segment *segment = &module->elf.segments[i];
        uint64_t start = segment->vaddr + region->bias;
        if (address - start < segment->memory_bytes)
            return (struct module_span){start, start + segment->memory_bytes};
    }
    return (struct module_span){0, 0};
}

struct module_span modules_span(struct modules *modules, uint64_t address)
{
    /* Its code is the nearest above or below: modules do not interleave. */
    uint32_t above = region_above(modules, address);
    struct module_span span = {0, 0};
    if (above < modules->region_count)
        span = region_span(modules, &modules->regions[above], address);
    if (span.end == 0 && above > 0)
        span = region_span(modules, &modules->regions[above - 1], address);
    return span;
}

uint64_t region_link_address(const struct region *region, uint64_t address)
{
    return address - region->bias;
}

uint64_t region_table_address(const struct region *region, const struct module *module,
                              uint64_t address)
{
    return region_link_address(region, address) + module->table.load_bias;
}

void modules_close(struct modules *modules)
{
    for (uint32_t i = 0; i < modules_count(modules); i++) {
        struct module *module = modules_at(modules, i);
        if (module->fd >= 0)
            sys_close(module->fd);
        module->fd = -1;
    }
    if (modules->pages != NULL)
        elf_pages_forget(modules->pages);
}
