/*
 * ELF files out of any bytes, through everything that the helper reads of one: headers, unwind
 * tables as they are and as they are made up, rules, functions' ranges, symbols, names of PLT
 * stubs, mini debug information. libFuzzer's entry.
 */
#include <stdlib.h>

#include "arena.h"
#include "debugdata.h"
#include "fde_range.h"
#include "module_rules.h"
#include "plt_names.h"
#include "symbols.h"

#define PLACES 16u
#define LOADED 0x7f0000000000ull /* where the file is said to be; nothing is there */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void names_read(const struct elf_file *file, const uint64_t *places, struct arena *keep,
                       struct arena *scratch)
{
    struct fde_ranges ranges;
    struct symbol_request requests[PLACES] = {{0}};
    struct elf_file inner;
    uint64_t start, end;
    fde_ranges_open(&ranges, file, keep);
    for (unsigned i = 0; i < PLACES; i++) {
        requests[i].vaddr = places[i];
        if (fde_range_find(&ranges, places[i], &start, &end) &&
            (places[i] < start || places[i] >= end))
            abort();
    }
    plt_names_resolve(file, requests, PLACES, keep, scratch);
    symbols_resolve(file, SYMBOLS_SYMTAB, &ranges, requests, PLACES, keep, scratch);
    symbols_resolve(file, SYMBOLS_DYNSYM, &ranges, requests, PLACES, keep, scratch);
    debugdata_open(&inner, file, scratch);
}

/* The file as a module that is mapped, without a descriptor. */
static void rules_read(const struct elf_file *file, const uint64_t *places, struct arena *keep,
                       struct arena *scratch)
{
    struct app_memory memory;
    struct modules modules;
    struct cfi_rule rule;
    app_memory_init(&memory, keep);
    modules_init(&modules, keep, &memory, 0);
    modules_map(&modules, LOADED, 1u << 30, 0, 1, "/fuzzed");
    struct module *module = modules_at(&modules, 0);
    module->prepared = module->has_elf = true;
    module->elf = *file;
    module->has_hdr = cfi_hdr_read(&module->hdr, file) == 0;
    modules.regions[0].bias = LOADED;
    modules.regions[0].bias_known = true;
    for (unsigned i = 0; i < PLACES; i++)
        module_rule_find(&modules, LOADED + places[i], i % 2 != 0, &rule);
    if (cfi_table_build(&module->table, file, LOADED, LOADED + 0x60000000, keep, scratch) != 0)
        return;
    module->table_base = LOADED + 0x60000000;
    for (unsigned i = 0; i < PLACES; i++)
        module_rule_find(&modules, LOADED + places[i], i % 2 != 0, &rule);
}

/* Places in the code, ascending. */
static void places_choose(const struct elf_file *file, uint64_t *places)
{
    const struct elf_segment *code = &file->segments[0];
    for (uint32_t i = 0; i < file->segment_count; i++)
        if (file->segments[i].executable)
            code = &file->segments[i];
    uint64_t bytes = code->memory_bytes < 1u << 24 ? code->memory_bytes : 1u << 24;
    for (unsigned i = 0; i < PLACES; i++)
        places[i] = code->vaddr + bytes * i / PLACES;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct arena keep, scratch;
    struct elf_file file;
    uint64_t places[PLACES];
    arena_init(&keep, 256u << 20);
    arena_init(&scratch, 256u << 20);
    if (elf_file_read(&file, elf_source_memory(data, bytes), &keep) == 0) {
        places_choose(&file, places);
        names_read(&file, places, &keep, &scratch);
        rules_read(&file, places, &keep, &scratch);
    }
    arena_destroy(&keep);
    arena_destroy(&scratch);
    return 0;
}
