/*
 * Unwind tables out of any bytes: entries are walked, CIEs and FDEs decoded, rules read at places
 * inside of each. libFuzzer's entry; the first byte chooses the kind of section.
 */
#include <stdlib.h>

#include "arch.h"
#include "cfi_rule.h"

#define ENTRIES_MAX 64u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void rules_read(const struct cfi_bytes *from, const struct cfi_entry *entry)
{
    struct cfi_entry cie_entry;
    struct cfi_rows rows = {.cie_bytes = from, .fde_bytes = from};
    uint64_t cie_at = entry->cie_vaddr - from->vaddr;
    if (cie_at >= from->count || !cfi_entry_read(from, (size_t)cie_at, &cie_entry) ||
        !cie_entry.is_cie || !cfi_cie_read(from, &cie_entry, &rows.cie) ||
        !cfi_fde_read(from, entry, &rows.cie, &rows.fde))
        return;
    uint64_t length = rows.fde.end_vaddr - rows.fde.start_vaddr;
    for (unsigned i = 0; i < 8; i++) {
        uint64_t place = rows.fde.start_vaddr + length / 8 * i;
        rows.followed = i / 2 % ARCH_PERF_REGISTER_COUNT; /* 0: the frame pointer */
        struct cfi_rule rule = cfi_rule_read(&rows, place, i % 2 != 0);
        if (rule.kind < CFI_RULE_HAND_OVER || rule.kind > CFI_RULE_SIGNAL ||
            rule.base >= ARCH_PERF_REGISTER_COUNT)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes == 0)
        return 0;
    const struct cfi_bytes from = {data + 1, bytes - 1, data[0] & 2 ? 0x401000 : 0,
                                   (data[0] & 1) != 0};
    struct cfi_entry entry;
    size_t at = 0, start;
    for (unsigned i = 0; i < ENTRIES_MAX && cfi_entry_next(&from, &at, &start, &entry); i++) {
        struct cfi_cie cie;
        if (entry.is_cie)
            cfi_cie_read(&from, &entry, &cie);
        else
            rules_read(&from, &entry);
    }
    return 0;
}
