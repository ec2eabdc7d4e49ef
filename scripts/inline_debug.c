/*
 * Debug information by libdw: which functions were inlined at an address.
 *
 * Only units that cover a wanted address are looked into, and of these only the entries that
 * functions are found by; .debug_aranges is not used, since clang leaves it out.
 */
#include <elfutils/libdwfl.h>
#include <dwarf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "inline.h"

/* What honest debug information stays far below, and damaged must not go beyond. */
enum {
    DEPTH_MAX = 256,         /* of entries within entries */
    ENTRIES_MAX = 1 << 26,   /* of a unit that are looked at, again and again included */
    FUNCTIONS_MAX = 1 << 21, /* of a unit */
    RANGES_MAX = 1 << 23,
    OVERLAPS_MAX = 8, /* ranges that are tried for an address */
};

struct range {
    uint64_t start, end;
    size_t index; /* of a unit, or of a function */
};

/* Ranges of addresses, sorted by their starts once they are complete. */
struct ranges {
    struct range *list;
    size_t count, room;
};

struct unit {
    Dwarf_Die die; /* whose entries count: that of a .dwo file where there is one */
    bool read;
    int entries; /* looked at for functions */
    struct ranges functions;
    Dwarf_Die *dies; /* of the functions */
    size_t count, room;
};

struct debug_module {
    struct debug_module *next;
    char *path, *build_id;
    uint64_t inode;
    Dwfl *dwfl;
    uint64_t bias; /* what turns addresses of the module into those of its debug information */
    struct unit *units;
    size_t count, room;
    struct ranges covered; /* by units */
};

static struct debug_module *modules; /* all that were asked for, those without information too */

static void *list_grow(void *list, size_t count, size_t *room, size_t bytes)
{
    if (count < *room)
        return list;
    *room = *room ? 2 * *room : 16;
    list = realloc(list, *room * bytes);
    if (list == NULL) {
        tell("out of memory; inlined functions are not shown");
        exit(1);
    }
    return list;
}

/* ---- ranges ---- */

/* Sections that the linker left out keep ranges at 0, 1 or the highest addresses. */
static void range_add(struct ranges *ranges, uint64_t start, uint64_t end, size_t index)
{
    if (start <= 1 || end <= start || ranges->count == RANGES_MAX)
        return;
    ranges->list = list_grow(ranges->list, ranges->count, &ranges->room, sizeof *ranges->list);
    ranges->list[ranges->count++] = (struct range){start, end, index};
}

static int range_compare(const void *left, const void *right)
{
    const struct range *a = left, *b = right;
    return a->start < b->start ? -1 : a->start > b->start;
}

static void ranges_sort(struct ranges *ranges)
{
    if (ranges->count != 0)
        qsort(ranges->list, ranges->count, sizeof *ranges->list, range_compare);
}

/* The range that begins last of those around ADDRESS, or NULL. */
static const struct range *range_find(const struct ranges *ranges, uint64_t address)
{
    size_t low = 0, high = ranges->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (ranges->list[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    for (int tries = 0; low-- > 0 && tries < OVERLAPS_MAX; tries++)
        if (address < ranges->list[low].end)
            return &ranges->list[low];
    return NULL;
}

static void die_ranges_add(Dwarf_Die *die, struct ranges *ranges, size_t index)
{
    Dwarf_Addr base, start, end;
    for (ptrdiff_t offset = 0; (offset = dwarf_ranges(die, offset, &base, &start, &end)) > 0;)
        range_add(ranges, start, end, index);
}

/* ---- functions of a unit ---- */

/* Goes on to the next entry beside DIE. One that says it lies further back would make a circle. */
static bool sibling_next(Dwarf_Die *die)
{
    uintptr_t before = (uintptr_t)die->addr;
    return dwarf_siblingof(die, die) == 0 && (uintptr_t)die->addr > before;
}

static bool holds_functions(int tag)
{
    switch (tag) {
    case DW_TAG_namespace:
    case DW_TAG_module:
    case DW_TAG_class_type:
    case DW_TAG_structure_type:
    case DW_TAG_union_type:
    case DW_TAG_enumeration_type:
    case DW_TAG_interface_type:
    case DW_TAG_subprogram:
    case DW_TAG_lexical_block:
        return true;
    }
    return false;
}

static void functions_add(struct unit *unit, Dwarf_Die *parent, int depth)
{
    Dwarf_Die die;
    if (depth > DEPTH_MAX || dwarf_child(parent, &die) != 0)
        return;
    do {
        int tag = dwarf_tag(&die);
        if (unit->entries == ENTRIES_MAX || unit->count == FUNCTIONS_MAX)
            return;
        unit->entries++;
        if (tag == DW_TAG_subprogram) {
            unit->dies = list_grow(unit->dies, unit->count, &unit->room, sizeof *unit->dies);
            unit->dies[unit->count] = die;
            die_ranges_add(&die, &unit->functions, unit->count);
            unit->count++;
        }
        if (holds_functions(tag))
            functions_add(unit, &die, depth + 1);
    } while (sibling_next(&die));
}

static struct unit *unit_find(struct debug_module *module, uint64_t address)
{
    const struct range *range = range_find(&module->covered, address);
    if (range == NULL)
        return NULL;
    struct unit *unit = &module->units[range->index];
    if (!unit->read) {
        functions_add(unit, &unit->die, 0);
        ranges_sort(&unit->functions);
        unit->read = true;
    }
    return unit;
}

/* ---- inlined functions of a function ---- */

/* Sets DIE to its child around ADDRESS that is a block or an inlined function. */
static bool descend(Dwarf_Die *die, uint64_t address)
{
    Dwarf_Die child;
    if (dwarf_child(die, &child) != 0)
        return false;
    do {
        switch (dwarf_tag(&child)) {
        case DW_TAG_inlined_subroutine:
        case DW_TAG_lexical_block:
        case DW_TAG_try_block:
        case DW_TAG_catch_block:
            if (dwarf_haspc(&child, address) > 0) {
                *die = child;
                return true;
            }
        }
    } while (sibling_next(&child));
    return false;
}

size_t debug_inlined(struct debug_module *module, uint64_t address, const char **names)
{
    address += module->bias;
    struct unit *unit = unit_find(module, address);
    const struct range *range = unit ? range_find(&unit->functions, address) : NULL;
    if (range == NULL)
        return 0;
    Dwarf_Die die = unit->dies[range->index];
    size_t count = 0;
    for (int depth = 0; depth < DEPTH_MAX && count < INLINED_MAX && descend(&die, address); depth++)
        if (dwarf_tag(&die) == DW_TAG_inlined_subroutine)
            names[count++] = inlined_name(&die);
    return count;
}

/* ---- modules ---- */

static void units_add(struct debug_module *module, Dwarf *dwarf)
{
    Dwarf_CU *cu = NULL;
    Dwarf_Die die, split;
    while (dwarf_get_units(dwarf, cu, &cu, NULL, NULL, &die, &split) == 0) {
        int tag = dwarf_tag(&die);
        if (tag != DW_TAG_compile_unit && tag != DW_TAG_skeleton_unit)
            continue;
        module->units =
            list_grow(module->units, module->count, &module->room, sizeof *module->units);
        bool is_split = dwarf_tag(&split) == DW_TAG_compile_unit;
        module->units[module->count] = (struct unit){.die = is_split ? split : die};
        die_ranges_add(&die, &module->covered, module->count);
        module->count++;
    }
    ranges_sort(&module->covered);
}

/* Whether the file is the one that was profiled. */
static bool is_same(const struct debug_module *module, Dwfl_Module *file)
{
    const unsigned char *bits;
    GElf_Addr address;
    struct stat status;
    int bytes = dwfl_module_build_id(file, &bits, &address);
    if (bytes <= 0 || strcmp(module->build_id, "-") == 0)
        return bytes <= 0 && strcmp(module->build_id, "-") == 0 &&
               stat(module->path, &status) == 0 && status.st_ino == module->inode;
    if (strlen(module->build_id) != 2 * (size_t)bytes)
        return false;
    for (int i = 0; i < bytes; i++) {
        char digits[3];
        snprintf(digits, sizeof digits, "%02x", bits[i]);
        if (memcmp(digits, module->build_id + 2 * i, 2) != 0)
            return false;
    }
    return true;
}

static void module_open(struct debug_module *module)
{
    static char *debug_path; /* NULL: the usual places */
    static const Dwfl_Callbacks callbacks = {
        .find_debuginfo = dwfl_standard_find_debuginfo,
        .section_address = dwfl_offline_section_address,
        .debuginfo_path = &debug_path,
    };
    struct stat status;
    if (stat(module->path, &status) != 0 || !S_ISREG(status.st_mode))
        return;
    module->dwfl = dwfl_begin(&callbacks);
    Dwfl_Module *file = dwfl_report_offline(module->dwfl, "", module->path, -1);
    if (file == NULL || dwfl_report_end(module->dwfl, NULL, NULL) != 0 || !is_same(module, file))
        return;
    Dwarf_Addr dwarf_bias = 0;
    GElf_Addr file_bias = 0;
    Dwarf *dwarf = dwfl_module_getdwarf(file, &dwarf_bias);
    if (dwarf == NULL || dwfl_module_getelf(file, &file_bias) == NULL)
        return;
    module->bias = file_bias - dwarf_bias;
    units_add(module, dwarf);
}

struct debug_module *debug_module_get(const struct place_module *wanted)
{
    struct debug_module *module = modules;
    while (module != NULL &&
           (strcmp(module->path, wanted->path) != 0 || module->inode != wanted->inode ||
            strcmp(module->build_id, wanted->build_id) != 0))
        module = module->next;
    if (module == NULL) {
        module = calloc(1, sizeof *module);
        if (module == NULL)
            return NULL;
        module->path = strdup(wanted->path);
        module->build_id = strdup(wanted->build_id);
        module->inode = wanted->inode;
        if (module->path == NULL || module->build_id == NULL)
            return NULL;
        module->next = modules;
        modules = module;
        module_open(module);
    }
    return module->covered.count != 0 ? module : NULL;
}
