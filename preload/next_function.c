/*
 * Looks functions up in the libraries behind ours, by their hash tables, in the linker's order.
 *
 * Runs in the app's threads. Takes no lock, makes no system call, allocates nothing. Libraries that
 * were there at the start are never unloaded, and what the app calls is found in one of these.
 * Where libc is not behind us (we were loaded by dlopen, or into a namespace of our own) the linker
 * alone knows, and is asked.
 *
 * Source of the formats: System V gABI, chapter 5, "Hash Table"; glibc's elf/dl-lookup.c for
 * DT_GNU_HASH and for which version is the default.
 */
#include "next_function.h"

#include <dlfcn.h>
#include <link.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "linked.h"

/* glibc and musl have it, and nobody takes its place but before libc at the start. */
#define OF_LIBC "__libc_start_main"

#define LIBRARIES_MAX  4096u   /* a list without end is none */
#define VERSION_HIDDEN 0x8000u /* not the default one */

/* What a library tells of its symbols. */
struct library {
    uintptr_t bias;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint16_t *versions; /* NULL: it has none */
    const uint32_t *gnu_hash, *hash;
};

/* glibc has added the bias to what the table holds, unless it can't be written; musl has not. */
static const void *address_of(const struct link_map *map, const ElfW(Dyn) * entry)
{
    return (const void *)(entry->d_un.d_ptr < map->l_addr ? map->l_addr + entry->d_un.d_ptr
                                                          : entry->d_un.d_ptr);
}

static struct library library_of(const struct link_map *map)
{
    struct library library = {.bias = map->l_addr};
    for (const ElfW(Dyn) *entry = map->l_ld; entry->d_tag != DT_NULL; entry++) {
        if (entry->d_tag == DT_SYMTAB)
            library.symbols = address_of(map, entry);
        else if (entry->d_tag == DT_STRTAB)
            library.names = address_of(map, entry);
        else if (entry->d_tag == DT_VERSYM)
            library.versions = address_of(map, entry);
        else if (entry->d_tag == DT_GNU_HASH)
            library.gnu_hash = address_of(map, entry);
        else if (entry->d_tag == DT_HASH)
            library.hash = address_of(map, entry);
    }
    return library;
}

/* Is it NAME, for others to use? */
static bool is_given(const struct library *library, uint32_t index, const char *name)
{
    const ElfW(Sym) *symbol = &library->symbols[index];
    unsigned char type = ELF64_ST_TYPE(symbol->st_info), binding = ELF64_ST_BIND(symbol->st_info),
                  visibility = ELF64_ST_VISIBILITY(symbol->st_other);
    return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
           (type == STT_FUNC || type == STT_NOTYPE || type == STT_GNU_IFUNC) &&
           (binding == STB_GLOBAL || binding == STB_WEAK) &&
           (visibility == STV_DEFAULT || visibility == STV_PROTECTED) &&
           (library->versions == NULL || (library->versions[index] & VERSION_HIDDEN) == 0) &&
           strcmp(library->names + symbol->st_name, name) == 0;
}

/* The symbol's index, 0 where there is none. So does the next one. */
static uint32_t find_by_gnu_hash(const struct library *library, const char *name)
{
    uint32_t hash = 5381;
    for (const char *at = name; *at != '\0'; at++)
        hash = hash * 33 + (unsigned char)*at;
    const uint32_t *table = library->gnu_hash, buckets = table[0], first = table[1],
                   words = table[2];
    const uint64_t *filter = (const uint64_t *)(table + 4);
    const uint32_t *bucket = (const uint32_t *)(filter + words), *chain = bucket + buckets;
    uint64_t bits = 1ull << hash % 64 | 1ull << (hash >> table[3]) % 64;
    if (buckets == 0 || words == 0 || (filter[hash / 64 % words] & bits) != bits)
        return 0;
    for (uint32_t i = bucket[hash % buckets]; i >= first && i != 0; i++) {
        uint32_t found = chain[i - first];
        if ((found | 1) == (hash | 1) && is_given(library, i, name))
            return i;
        if ((found & 1) != 0) /* the last of its bucket */
            break;
    }
    return 0;
}

static uint32_t find_by_hash(const struct library *library, const char *name)
{
    uint32_t hash = 0;
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash << 4) + (unsigned char)*at;
        hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
    }
    const uint32_t buckets = library->hash[0], symbols = library->hash[1],
                   *bucket = library->hash + 2, *chain = bucket + buckets;
    uint32_t i = buckets != 0 ? bucket[hash % buckets] : 0;
    for (uint32_t steps = 0; i != 0 && steps < symbols; steps++, i = chain[i])
        if (is_given(library, i, name))
            return i;
    return 0;
}

/* The first library behind ours; NULL: we are the last, or not on the list. */
static const struct link_map *behind_us(void)
{
    const struct link_map *map = linked_list() != NULL ? linked_list()->r_map : NULL;
    for (unsigned i = 0; i < LIBRARIES_MAX && map != NULL && map->l_ld != _DYNAMIC; i++)
        map = map->l_next;
    return map != NULL && map->l_ld == _DYNAMIC ? map->l_next : NULL;
}

static void *function_from(const struct link_map *map, const char *name)
{
    for (unsigned i = 0; i < LIBRARIES_MAX && map != NULL; i++, map = map->l_next) {
        struct library library = library_of(map);
        uint32_t found = 0;
        if (library.symbols == NULL || library.names == NULL)
            continue;
        if (library.gnu_hash != NULL)
            found = find_by_gnu_hash(&library, name);
        else if (library.hash != NULL)
            found = find_by_hash(&library, name);
        if (found == 0)
            continue;
        if (ELF64_ST_TYPE(library.symbols[found].st_info) == STT_GNU_IFUNC)
            return dlsym(RTLD_NEXT, name); /* the linker has it chosen among several */
        return (void *)(library.bias + library.symbols[found].st_value);
    }
    return NULL;
}

void *next_function(const char *name)
{
    static bool before_libc;
    const struct link_map *behind = behind_us();
    if (!__atomic_load_n(&before_libc, __ATOMIC_RELAXED))
        __atomic_store_n(&before_libc, function_from(behind, OF_LIBC) != NULL, __ATOMIC_RELAXED);
    return __atomic_load_n(&before_libc, __ATOMIC_RELAXED) ? function_from(behind, name)
                                                           : dlsym(RTLD_NEXT, name);
}
