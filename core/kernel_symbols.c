/* Builds, shares and asks the table of kernel symbols. Runs in the helper. */
#include "kernel_symbols.h"

#include <errno.h>
#include <string.h>

#include "kallsyms.h"
#include "kernel_cache.h"
#include "sys.h"

#define ARENA_BYTES_MAX (24u * 1024 * 1024)
#define PAGE_BYTES      4096u
#define BELOW_BYTES     ((uint64_t)2 << 30) /* modules may lie that far below the kernel */
#define OWNER_BYTES     64u

/* A table being built. All of the arrays is reserved; what is not written to costs no memory. */
struct kernel_symbols_build {
    struct kallsyms kallsyms;
    uint64_t fingerprint; /* when the reading began */
    uint64_t base;
    struct kernel_entry *entries;
    char *names;
    uint32_t entry_count;
    uint32_t names_bytes;
    bool overflow;           /* there were more symbols than a table may have */
    bool in_order;           /* entries are sorted so far */
    char owner[OWNER_BYTES]; /* of the last function that was taken, cut; "": the kernel */
    size_t owner_length;
    uint64_t owner_last; /* the highest address of that owner's functions; 0: none yet */
};

const struct kernel_symbols_paths kernel_symbols_system = {
    .kallsyms = KALLSYMS_PATH,
    .boot_id = KERNEL_BOOT_ID_PATH,
    .modules = KERNEL_MODULES_PATH,
    .cache_directory = KERNEL_CACHE_DIRECTORY,
};

void kernel_symbols_init(struct kernel_symbols *symbols, const struct kernel_symbols_paths *paths)
{
    *symbols = (struct kernel_symbols){.paths = *paths, .shared = true};
    arena_init(&symbols->arena, ARENA_BYTES_MAX);
}

static uint64_t fingerprint_now(const struct kernel_symbols *symbols)
{
    return kernel_fingerprint(symbols->paths.boot_id, symbols->paths.modules);
}

static void build_end(struct kernel_symbols *symbols, enum kernel_symbols_state state)
{
    if (symbols->build != NULL)
        kallsyms_close(&symbols->build->kallsyms);
    symbols->build = NULL;
    arena_destroy(&symbols->arena);
    symbols->state = state;
}

static void build_begin(struct kernel_symbols *symbols, uint64_t fingerprint)
{
    struct arena *arena = &symbols->arena;
    struct kernel_symbols_build *build = arena_alloc(arena, sizeof *build);
    struct kernel_entry *entries =
        arena_alloc_array(arena, KERNEL_TABLE_ENTRIES_MAX, sizeof *entries);
    char *names = arena_alloc(arena, KERNEL_TABLE_NAMES_MAX);
    if (build == NULL || entries == NULL || names == NULL ||
        kallsyms_open(&build->kallsyms, symbols->paths.kallsyms) != 0) {
        build_end(symbols, KERNEL_SYMBOLS_FAILED);
        return;
    }
    build->fingerprint = fingerprint;
    build->entries = entries;
    build->names = names;
    build->names_bytes = 1; /* name 0 is that of nobody */
    build->in_order = true;
    symbols->build = build;
    symbols->state = KERNEL_SYMBOLS_READING;
}

static void entry_add(struct kernel_symbols_build *build, uint64_t address, const char *name,
                      size_t name_length)
{
    if (address < build->base || address - build->base > UINT32_MAX)
        return;
    if (build->entry_count == KERNEL_TABLE_ENTRIES_MAX ||
        name_length + 1 > KERNEL_TABLE_NAMES_MAX - build->names_bytes) {
        build->overflow = true;
        return;
    }
    struct kernel_entry *entry = &build->entries[build->entry_count++];
    entry->offset = (uint32_t)(address - build->base);
    if (build->entry_count > 1 && entry[-1].offset > entry->offset)
        build->in_order = false;
    if (name_length == 0)
        return;
    entry->name = build->names_bytes;
    memcpy(build->names + build->names_bytes, name, name_length); /* the NUL is there already */
    build->names_bytes += (uint32_t)name_length + 1;
}

/* Behind an owner's last function, from the next page on, it is not known what lies there. */
static void owner_end(struct kernel_symbols_build *build)
{
    uint64_t page_last = build->owner_last | (PAGE_BYTES - 1);
    if (build->owner_last != 0 && page_last != UINT64_MAX)
        entry_add(build, page_last + 1, NULL, 0);
    build->owner_last = 0;
}

/* Code that is made at run time has gone by the time that another process asks for it. */
static bool is_passing(const struct kallsyms_symbol *symbol)
{
    static const char *const owners[] = {"[bpf]", "[__builtin__"};
    for (unsigned i = 0; i < sizeof owners / sizeof owners[0]; i++) {
        size_t length = strlen(owners[i]);
        if (symbol->owner_length >= length && memcmp(symbol->owner, owners[i], length) == 0)
            return true;
    }
    return false;
}

static void symbol_add(struct kernel_symbols_build *build, const struct kallsyms_symbol *symbol)
{
    size_t length = symbol->owner_length < OWNER_BYTES ? symbol->owner_length : OWNER_BYTES;
    if (is_passing(symbol))
        return;
    if (build->entry_count == 0)
        build->base =
            symbol->address - (symbol->address < BELOW_BYTES ? symbol->address : BELOW_BYTES);
    if (length != build->owner_length || memcmp(symbol->owner, build->owner, length) != 0) {
        owner_end(build);
        memcpy(build->owner, symbol->owner, length);
        build->owner_length = length;
    }
    if (build->owner_last < symbol->address)
        build->owner_last = symbol->address;
    entry_add(build, symbol->address, symbol->name, symbol->name_length);
}

/* Radix sort: stable, and the same time whatever the order was. False where memory is short. */
static bool entries_sort(struct kernel_symbols_build *build, struct arena *arena)
{
    struct kernel_entry *from = build->entries;
    struct kernel_entry *to = arena_alloc_array(arena, build->entry_count, sizeof *to);
    if (to == NULL)
        return false;
    for (unsigned shift = 0; shift < 32; shift += 8) {
        uint32_t starts[257] = {0};
        for (uint32_t i = 0; i < build->entry_count; i++)
            starts[(from[i].offset >> shift & 255) + 1]++;
        for (unsigned digit = 1; digit < 256; digit++)
            starts[digit] += starts[digit - 1];
        for (uint32_t i = 0; i < build->entry_count; i++)
            to[starts[from[i].offset >> shift & 255]++] = from[i];
        struct kernel_entry *swapped = from;
        from = to;
        to = swapped;
    }
    return true; /* after an even number of passes they are where they were */
}

static bool is_better(const struct kernel_symbols_build *build, const struct kernel_entry *one,
                      const struct kernel_entry *other)
{
    if (one->name == 0 || other->name == 0)
        return one->name > other->name;
    const char *mine = build->names + one->name, *its = build->names + other->name;
    return kallsyms_name_preferred(mine, strlen(mine), its, strlen(its));
}

/* Leaves one entry for each address, with the name that is known best. */
static void entries_unite(struct kernel_symbols_build *build)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < build->entry_count; i++) {
        const struct kernel_entry *entry = &build->entries[i];
        if (kept == 0 || build->entries[kept - 1].offset != entry->offset)
            build->entries[kept++] = *entry;
        else if (is_better(build, entry, &build->entries[kept - 1]))
            build->entries[kept - 1] = *entry;
    }
    build->entry_count = kept;
}

/* Whether the table could be made. */
static bool table_make(struct kernel_symbols *symbols)
{
    struct kernel_symbols_build *build = symbols->build;
    owner_end(build);
    if (build->overflow || build->entry_count == 0 ||
        (!build->in_order && !entries_sort(build, &symbols->arena)))
        return false;
    entries_unite(build);
    const struct kernel_content content = {.base = build->base,
                                           .entries = build->entries,
                                           .names = build->names,
                                           .entry_count = build->entry_count,
                                           .names_bytes = build->names_bytes};
    /* A module that came or went meanwhile may be there by halves: not for others. */
    bool steady = fingerprint_now(symbols) == build->fingerprint;
    return kernel_cache_create(&symbols->table, symbols->paths.cache_directory,
                               steady && symbols->shared ? build->fingerprint : 0, &content) == 0;
}

static void build_step(struct kernel_symbols *symbols, size_t budget_bytes)
{
    struct kernel_symbols_build *build = symbols->build;
    struct kallsyms_symbol symbol;
    long got = 1;
    for (size_t bytes = 0; bytes < budget_bytes; bytes += (size_t)got) {
        got = kallsyms_fill(&build->kallsyms);
        if (got <= 0)
            break;
        while (kallsyms_next(&build->kallsyms, &symbol))
            symbol_add(build, &symbol);
    }
    if (build->kallsyms.hidden)
        build_end(symbols, KERNEL_SYMBOLS_HIDDEN);
    else if (got < 0)
        build_end(symbols, KERNEL_SYMBOLS_FAILED);
    else if (got == 0)
        build_end(symbols, table_make(symbols) ? KERNEL_SYMBOLS_READY : KERNEL_SYMBOLS_FAILED);
}

void kernel_symbols_step(struct kernel_symbols *symbols, size_t budget_bytes)
{
    if (symbols->state == KERNEL_SYMBOLS_NEW) {
        uint64_t fingerprint = fingerprint_now(symbols);
        if (kernel_cache_open(&symbols->table, symbols->paths.cache_directory, fingerprint) == 0)
            symbols->state = KERNEL_SYMBOLS_READY;
        else
            build_begin(symbols, fingerprint);
    }
    if (symbols->state == KERNEL_SYMBOLS_READING)
        build_step(symbols, budget_bytes);
}

void kernel_symbols_hold(struct kernel_symbols *symbols)
{
    kernel_symbols_step(symbols, 0);
    symbols->shared = false;
}

/* Asks the table. 0; -ENOENT: some have no name yet; -ENOMEM. */
static int table_ask(const struct kernel_table *table, struct symbol_request *requests,
                     size_t count, struct arena *names)
{
    struct kernel_function function;
    const struct symbol_request *last = NULL; /* requests of one function stand in a row */
    int result = 0;
    for (size_t i = 0; i < count; i++) {
        if (requests[i].name != NULL)
            continue;
        if (!kernel_table_find(table, requests[i].vaddr, &function)) {
            result = -ENOENT;
            continue;
        }
        if (last != NULL && last->start_vaddr == function.address)
            requests[i].name = last->name;
        else
            requests[i].name = arena_copy_text(names, function.name, function.name_length);
        if (requests[i].name == NULL)
            return -ENOMEM;
        requests[i].start_vaddr = function.address;
        last = &requests[i];
    }
    return result;
}

int kernel_symbols_resolve(struct kernel_symbols *symbols, struct symbol_request *requests,
                           size_t count, struct arena *names, struct arena *scratch)
{
    int result = -ENOENT;
    kernel_symbols_step(symbols, SIZE_MAX);
    if (symbols->state == KERNEL_SYMBOLS_READY)
        result = table_ask(&symbols->table, requests, count, names);
    if (result != -ENOENT || symbols->state == KERNEL_SYMBOLS_HIDDEN)
        return result;
    return kallsyms_resolve(symbols->paths.kallsyms, requests, count, names, scratch);
}

void kernel_symbols_close(struct kernel_symbols *symbols)
{
    if (symbols->state == KERNEL_SYMBOLS_READY)
        kernel_table_close(&symbols->table);
    build_end(symbols, KERNEL_SYMBOLS_FAILED);
}
