/* Names PLT stubs. Runs in the helper, when a profile is written. */
#include "plt_names.h"

#include <errno.h>
#include <string.h>

#include "arch.h"
#include "arena.h"
#include "demangle.h"
#include "elf_reloc.h"
#include "sort.h"
#include "text.h"

#define SUFFIX "@plt"

/* A request that lies in a stub. */
struct plt_stub {
    struct symbol_request *request;
    uint64_t start_vaddr;
    uint64_t slot_vaddr;     /* the word that it jumps through */
    uint64_t resolver_vaddr; /* once it is known to have one */
};

struct plt_search {
    const struct elf_file *file;
    struct plt_stub *stubs;
    uint32_t *order; /* of the stubs by slot, then by resolver */
    uint32_t count;
    uint32_t named;
    struct elf_symtab dynsym;
    struct elf_relocs relocs;
    struct arena *names;
    struct arena *scratch;
};

/* Fills in STUB where its request's address lies in what looks like one. Stubs are aligned to
 * 8 bytes at least. */
static bool stub_decode(const struct elf_file *file, struct plt_stub *stub)
{
    for (uint64_t passed = 0; passed < ARCH_PLT_STUB_BYTES; passed += 8) {
        uint8_t code[ARCH_PLT_STUB_BYTES] = {0};
        stub->start_vaddr = (stub->request->vaddr & ~7ull) - passed;
        if (elf_file_read_vaddr(file, stub->start_vaddr, code, sizeof code) > passed &&
            arch_plt_slot(code, stub->start_vaddr, &stub->slot_vaddr) > passed)
            return true;
    }
    return false;
}

static bool is_within(const struct elf_section *section, uint64_t vaddr)
{
    return section->executable && vaddr >= section->vaddr &&
           vaddr - section->vaddr < section->bytes;
}

/* Other code may begin with such a jump as well. */
static void stubs_in_plt_keep(struct plt_search *search)
{
    static const char *const names[] = {".plt", ".plt.sec", ".plt.got"};
    struct elf_section sections[3];
    uint32_t kept = 0;
    for (unsigned k = 0; k < 3; k++) {
        if (!elf_section_find(search->file, names[k], &sections[k]))
            sections[k] = (struct elf_section){0};
    }
    for (uint32_t i = 0; i < search->count; i++) {
        uint64_t vaddr = search->stubs[i].start_vaddr;
        if (is_within(&sections[0], vaddr) || is_within(&sections[1], vaddr) ||
            is_within(&sections[2], vaddr))
            search->stubs[kept++] = search->stubs[i];
    }
    search->count = kept;
}

static bool slot_before(const void *context, uint32_t a, uint32_t b)
{
    const struct plt_stub *stubs = context;
    return stubs[a].slot_vaddr < stubs[b].slot_vaddr;
}

static bool resolver_before(const void *context, uint32_t a, uint32_t b)
{
    const struct plt_stub *stubs = context;
    return stubs[a].resolver_vaddr < stubs[b].resolver_vaddr;
}

/* The first in the order whose slot is not before VADDR. */
static uint32_t order_from(const struct plt_search *search, uint64_t vaddr)
{
    uint32_t low = 0, high = search->count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (search->stubs[search->order[middle]].slot_vaddr < vaddr)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* SYMBOL in its shown form with the suffix, or NULL. */
static const char *name_make(struct plt_search *search, const char *symbol)
{
    const char *shown = demangle(symbol, search->names, search->scratch);
    size_t length = strlen(shown);
    char *name = arena_alloc(search->names, length + sizeof SUFFIX);
    if (name != NULL) {
        memcpy(name, shown, length);
        memcpy(name + length, SUFFIX, sizeof SUFFIX);
    }
    return name;
}

static void stub_name(struct plt_search *search, const struct plt_stub *stub, const char *name)
{
    if (name == NULL || stub->request->name != NULL)
        return;
    stub->request->name = name;
    stub->request->start_vaddr = stub->start_vaddr;
    search->named++;
}

/* Tells all stubs that jump through the relocation's slot. */
static void reloc_apply(struct plt_search *search, const struct elf_reloc *reloc)
{
    const char *name = NULL;
    for (uint32_t i = order_from(search, reloc->slot_vaddr); i < search->count; i++) {
        struct plt_stub *stub = &search->stubs[search->order[i]];
        if (stub->slot_vaddr != reloc->slot_vaddr)
            break;
        stub->resolver_vaddr = reloc->resolver_vaddr;
        if (name == NULL && reloc->symbol != 0 && stub->request->name == NULL) {
            const char *symbol =
                elf_reloc_symbol_name(&search->dynsym, reloc->symbol, search->scratch);
            name = symbol != NULL ? name_make(search, symbol) : NULL;
        }
        stub_name(search, stub, name);
    }
}

static void relocs_ask(struct plt_search *search, const char *section)
{
    struct elf_reloc reloc;
    if (search->named == search->count ||
        elf_relocs_open(&search->relocs, search->file, section) != 0)
        return;
    while (elf_relocs_next(&search->relocs, &reloc))
        reloc_apply(search, &reloc);
}

/* A function that picks among its variants (an IFUNC) has its picker's address instead of a name.
 */
static void resolvers_ask(struct plt_search *search)
{
    struct symbol_request *pickers = NULL;
    if (search->named < search->count)
        pickers = arena_alloc_array(search->scratch, search->count, sizeof *pickers);
    if (pickers == NULL)
        return;
    sort_indices(search->order, search->count, resolver_before, search->stubs);
    for (uint32_t i = 0; i < search->count; i++)
        pickers[i].vaddr = search->stubs[search->order[i]].resolver_vaddr;
    symbols_resolve(search->file, SYMBOLS_DYNSYM, NULL, pickers, search->count, search->names,
                    search->scratch);
    symbols_resolve(search->file, SYMBOLS_SYMTAB, NULL, pickers, search->count, search->names,
                    search->scratch);
    for (uint32_t i = 0; i < search->count; i++) {
        const struct plt_stub *stub = &search->stubs[search->order[i]];
        if (stub->resolver_vaddr != 0 && stub->request->name == NULL && pickers[i].name != NULL)
            stub_name(search, stub, name_make(search, pickers[i].name));
    }
}

static int search_run(struct plt_search *search)
{
    /* A static program has no such table; its relocations have no symbols. */
    int error = elf_symtab_open(&search->dynsym, search->file, ELF_SECTION_DYNSYM, search->scratch);
    search->order = arena_alloc_array(search->scratch, search->count, sizeof *search->order);
    if (error == -ENOMEM || search->order == NULL)
        return -ENOMEM;
    for (uint32_t i = 0; i < search->count; i++)
        search->order[i] = i;
    sort_indices(search->order, search->count, slot_before, search->stubs);
    relocs_ask(search, ".rela.plt");
    relocs_ask(search, ".rela.dyn");
    resolvers_ask(search);
    return search->named > 0 ? 0 : -ENOENT;
}

int plt_names_resolve(const struct elf_file *file, struct symbol_request *requests, size_t count,
                      struct arena *names, struct arena *scratch)
{
    struct arena_mark mark = arena_mark(scratch);
    struct plt_search *search = arena_alloc(scratch, sizeof *search);
    struct plt_stub *stubs = arena_alloc_array(scratch, count, sizeof *stubs);
    int result = search == NULL || stubs == NULL ? -ENOMEM : -ENOENT;
    if (result == -ENOENT) {
        *search =
            (struct plt_search){.file = file, .stubs = stubs, .names = names, .scratch = scratch};
        for (size_t i = 0; i < count; i++) {
            stubs[search->count].request = &requests[i];
            if (requests[i].name == NULL && stub_decode(file, &stubs[search->count]))
                search->count++;
        }
        if (search->count > 0)
            stubs_in_plt_keep(search);
        if (search->count > 0)
            result = search_run(search);
    }
    arena_release(scratch, mark);
    return result;
}
