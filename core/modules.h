/*
 * The module map: which file's code lies at which address, now.
 *
 * Regions are the executable mappings; a module is the file (or the vDSO, or anonymous code) behind
 * one or more of them. The map is read from /proc/thread-self/maps once and then follows the
 * kernel's records in the order of their times, so that a sample is looked up in the map of its own
 * moment. Nothing tells of an unmapping, and nothing needs to: what is mapped there next replaces
 * it. A module is never forgotten, since the profile refers to it by number.
 *
 * A module's file is opened when its first sample is seen, and stays open until the names have been
 * read: it may be replaced or deleted while it runs. If that was before, it is looked for where the
 * kernel still has it: as the program's own file, as one that is mapped (for the privileged), as
 * one that the program has open. A file that is not the one that was mapped (other inode and other
 * build id, or changed since and other in memory) is refused.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_MODULES_H
#define SELFSAMPLE_CORE_MODULES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "app_memory.h"
#include "arena.h"
#include "cfi_hdr.h"
#include "cfi_table.h"
#include "elf_file.h"
#include "linked.h"
#include "sequence.h"

#define MODULES_REGIONS_MAX 8192u

enum module_kind {
    MODULE_FILE,
    MODULE_VDSO,
    MODULE_ANONYMOUS, /* code that no file holds: made at run time */
};

struct module {
    enum module_kind kind;
    const char *path;
    uint64_t inode;
    uint64_t mapped_at; /* start of the region that made it known */
    uint64_t known_ns;  /* when a record told of it (CLOCK_REALTIME); of a scan UINT64_MAX */
    bool ours;          /* selfsample itself: its frames are left out */
    bool prepared;      /* the fields below have been tried */
    bool has_elf;
    int fd; /* -1: none */
    struct elf_file elf;
    bool has_hdr; /* `hdr` is its search table */
    struct cfi_hdr hdr;
    bool table_tried; /* `table` was made up, or is not needed, or can't be */
    struct cfi_table table;
    uint64_t table_base; /* made-up address of `table`; 0: none */
};

struct region {
    uint64_t start, end;
    uint64_t file_offset;
    uint32_t module; /* index */
    bool bias_known;
    uint64_t bias; /* address - link-time address */
};

/* A range of addresses, [start, end). */
struct module_span {
    uint64_t start, end;
};

struct modules {
    struct arena *arena;
    struct app_memory *memory;
    pid_t app_pid; /* as /proc calls it; its descriptors may tell a deleted file. <= 0: none */
    const struct linked *linked; /* what the linker told at the start; NULL: nothing */
    bool scanning;               /* what is entered now is known to be mapped still */
    struct sequence list;        /* of struct module */
    struct region *regions;      /* sorted, not overlapping */
    uint32_t region_count;
    uint64_t our_address;    /* an address inside selfsample's own code */
    uint32_t made_up_tables; /* modules that have one */
    struct elf_pages *pages;
    uint64_t replaced; /* counts regions that replaced others: what was cached of them is void */
    struct module_span stale; /* spans all that was replaced since whoever caches emptied it */
};

/* An empty map. OUR_ADDRESS: any code address of selfsample itself. */
void modules_init(struct modules *modules, struct arena *arena, struct app_memory *memory,
                  uint64_t our_address);

/* Reads all executable mappings from /proc/thread-self/maps, or where there is no such file takes
 * what was loaded at the start. 0 or -errno. */
int modules_scan(struct modules *modules);

/* Enters one executable mapping, replacing what it overlaps. */
void modules_map(struct modules *modules, uint64_t start, uint64_t bytes, uint64_t file_offset,
                 uint64_t inode, const char *path);

/* The region that holds ADDRESS, or NULL. Its module is prepared and its bias known, if they can
 * be. */
struct region *modules_find(struct modules *modules, uint64_t address);

/* The part of a mapped module, code or data, in which ADDRESS lies; empty where it is in none. */
struct module_span modules_span(struct modules *modules, uint64_t address);

struct module *modules_at(const struct modules *modules, uint32_t index);

static inline uint32_t modules_count(const struct modules *modules)
{
    return modules->list.count;
}

/* The address as linked (for anonymous code and where the bias is unknown: the address itself). */
uint64_t region_link_address(const struct region *region, uint64_t address);

/* ADDRESS in REGION as the made-up table of MODULE, which is the region's, has it: that was built
 * where the module was first seen, and it may have been loaded elsewhere since. */
uint64_t region_table_address(const struct region *region, const struct module *module,
                              uint64_t address);

/* Closes the modules' files. */
void modules_close(struct modules *modules);

#endif
