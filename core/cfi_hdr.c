/* Looks addresses up in .eh_frame_hdr. Runs in the helper; allocates nothing. */
#include "cfi_hdr.h"

#include <errno.h>

#include "cfi_entry.h"
#include "elf_file.h"

#define VERSION     1
#define ENTRY_BYTES 8u
#define HEAD_BYTES  32u /* four bytes and two encoded pointers are shorter */

int cfi_hdr_read(struct cfi_hdr *hdr, const struct elf_file *file)
{
    uint8_t head[HEAD_BYTES];
    uint64_t vaddr = file->eh_frame_hdr_vaddr, bytes = file->eh_frame_hdr_bytes;
    size_t got =
        elf_file_read_vaddr(file, vaddr, head, bytes < sizeof head ? (size_t)bytes : sizeof head);
    struct cfi_bytes from = {head, got, vaddr, false};
    struct cfi_reader reader = {&from, 0, got, false};
    uint8_t version = (uint8_t)cfi_read_uint(&reader, 1);
    uint8_t frame_encoding = (uint8_t)cfi_read_uint(&reader, 1);
    uint8_t count_encoding = (uint8_t)cfi_read_uint(&reader, 1);
    uint8_t table_encoding = (uint8_t)cfi_read_uint(&reader, 1);
    if (reader.bad || version != VERSION || count_encoding == CFI_OMIT ||
        table_encoding != (CFI_DATAREL | CFI_SDATA4))
        return -ENOENT;
    if (frame_encoding != CFI_OMIT)
        cfi_read_pointer(&reader, frame_encoding, vaddr);
    uint64_t count = cfi_read_pointer(&reader, count_encoding, vaddr);
    if (reader.bad || count == 0 || count > (bytes - reader.at) / ENTRY_BYTES || count > UINT32_MAX)
        return -ENOENT;
    *hdr = (struct cfi_hdr){vaddr, vaddr + reader.at, (uint32_t)count};
    return 0;
}

static bool entry_read(const struct cfi_hdr *hdr, const struct elf_file *file, uint32_t index,
                       int32_t entry[2])
{
    return elf_file_read_vaddr(file, hdr->table_vaddr + (uint64_t)index * ENTRY_BYTES, entry,
                               ENTRY_BYTES) == ENTRY_BYTES;
}

bool cfi_hdr_find(const struct cfi_hdr *hdr, const struct elf_file *file, uint64_t vaddr,
                  uint64_t *fde_vaddr)
{
    int64_t wanted = (int64_t)(vaddr - hdr->vaddr);
    uint32_t low = 0, high = hdr->count; /* the first that begins behind VADDR is in [low, high] */
    int32_t entry[2];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (!entry_read(hdr, file, middle, entry))
            return false;
        if (entry[0] <= wanted)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || !entry_read(hdr, file, low - 1, entry))
        return false;
    *fde_vaddr = hdr->vaddr + (uint64_t)(int64_t)entry[1];
    return true;
}
