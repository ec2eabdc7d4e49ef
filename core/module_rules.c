/* Finds unwind rules in modules. Runs in the helper; allocates nothing, bounded by the sizes of
 * what is read: an entry longer than ENTRY_BYTES_MAX is handed over. */
#include "module_rules.h"

#include "arch.h"

#define ENTRY_BYTES_MAX 65536u /* functions of 100 KB have some 20,000 */
#define ENTRY_BYTES     512u   /* most are shorter */

#define ENTRY_CODE_BYTES 128u

/* An entry in a buffer. */
struct loaded {
    struct cfi_bytes bytes;
    struct cfi_entry entry;
    uint8_t buffer[ENTRY_BYTES_MAX];
};

static bool load(struct loaded *loaded, const struct elf_file *file, uint64_t vaddr)
{
    for (size_t bytes = ENTRY_BYTES;; bytes = ENTRY_BYTES_MAX) {
        size_t got = elf_file_read_vaddr(file, vaddr, loaded->buffer, bytes);
        loaded->bytes = (struct cfi_bytes){loaded->buffer, got, vaddr, false};
        if (!cfi_entry_read(&loaded->bytes, 0, &loaded->entry))
            return false;
        if (!loaded->entry.cut || bytes == ENTRY_BYTES_MAX)
            return true;
    }
}

/* The rule at VADDR from entries that have been found. False: they do not cover it. */
static bool read_rule(struct cfi_rows *rows, const struct cfi_entry *cie_entry,
                      const struct cfi_entry *fde_entry, uint64_t vaddr, bool is_return,
                      struct cfi_rule *rule)
{
    if (fde_entry->is_cie || !cie_entry->is_cie ||
        !cfi_cie_read(rows->cie_bytes, cie_entry, &rows->cie) ||
        !cfi_fde_read(rows->fde_bytes, fde_entry, &rows->cie, &rows->fde) ||
        vaddr < rows->fde.start_vaddr || vaddr >= rows->fde.end_vaddr)
        return false;
    *rule = (struct cfi_rule){.kind = CFI_RULE_HAND_OVER};
    if (!cie_entry->cut && !fde_entry->cut)
        *rule = cfi_rule_read(rows, vaddr, is_return);
    return true;
}

static bool find_in_file(const struct module *module, uint64_t vaddr, bool is_return,
                         unsigned followed, struct cfi_rule *rule)
{
    struct loaded fde, cie;
    uint64_t fde_vaddr;
    struct cfi_rows rows = {.cie_bytes = &cie.bytes, .fde_bytes = &fde.bytes, .followed = followed};
    return module->has_hdr && cfi_hdr_find(&module->hdr, &module->elf, vaddr, &fde_vaddr) &&
           load(&fde, &module->elf, fde_vaddr) && load(&cie, &module->elf, fde.entry.cie_vaddr) &&
           read_rule(&rows, &cie.entry, &fde.entry, vaddr, is_return, rule);
}

static bool find_in_table(const struct cfi_table *table, uint64_t address, bool is_return,
                          unsigned followed, struct cfi_rule *rule)
{
    const struct cfi_bytes bytes = {table->bytes, table->bytes_count, table->shadow_base, false};
    int64_t wanted = (int64_t)(address - table->shadow_base);
    size_t low = 0, high = table->entry_count; /* the first that begins behind ADDRESS */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (table->entries[middle].start <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    struct cfi_entry cie, fde;
    struct cfi_rows rows = {.cie_bytes = &bytes, .fde_bytes = &bytes, .followed = followed};
    return low > 0 && cfi_entry_read(&bytes, (size_t)table->entries[low - 1].fde, &fde) &&
           cfi_entry_read(&bytes, fde.cie_vaddr - bytes.vaddr, &cie) &&
           read_rule(&rows, &cie, &fde, address, is_return, rule);
}

bool module_is_entry_code(struct modules *modules, uint64_t ip)
{
    const struct region *region = modules_find(modules, ip);
    if (region == NULL)
        return false;
    const struct module *module = modules_at(modules, region->module);
    return module->has_elf && module->elf.entry_vaddr != 0 &&
           region_link_address(region, ip) - module->elf.entry_vaddr < ENTRY_CODE_BYTES;
}

bool module_is_signal_return(struct modules *modules, uint64_t ip)
{
    static const uint8_t code[] = ARCH_SIGNAL_RETURN_CODE;
    uint8_t bytes[sizeof code];
    return app_memory_read(modules->memory, ip, bytes, sizeof bytes) == 0 &&
           __builtin_memcmp(bytes, code, sizeof code) == 0;
}

bool module_rule_find_with(struct modules *modules, uint64_t ip, bool is_return, unsigned followed,
                           struct cfi_rule *rule)
{
    uint64_t place = ip - is_return;
    *rule = (struct cfi_rule){.kind = CFI_RULE_SIGNAL};
    if (module_is_signal_return(modules, ip))
        return true;
    rule->kind = CFI_RULE_NONE;
    const struct region *region = modules_find(modules, place);
    if (region == NULL)
        return false;
    const struct module *module = modules_at(modules, region->module);
    bool found =
        module->table_base != 0
            ? find_in_table(&module->table, region_table_address(region, module, place), is_return,
                            followed, rule)
            : find_in_file(module, region_link_address(region, place), is_return, followed, rule);
    if (!found && module_is_entry_code(modules, ip))
        rule->kind = CFI_RULE_ROOT;
    return true;
}

bool module_rule_find(struct modules *modules, uint64_t ip, bool is_return, struct cfi_rule *rule)
{
    return module_rule_find_with(modules, ip, is_return, 0, rule);
}
