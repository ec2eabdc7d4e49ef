/* Decodes CIEs and FDEs. Runs in the helper; works on bytes in memory only, allocates nothing. */
#include "cfi_entry.h"

#include <string.h>

uint64_t cfi_read_uint(struct cfi_reader *reader, unsigned bytes)
{
    uint64_t value = 0;
    if (reader->bad || reader->end - reader->at < bytes) {
        reader->bad = true;
        return 0;
    }
    for (unsigned i = 0; i < bytes; i++)
        value |= (uint64_t)reader->from->bytes[reader->at + i] << (8 * i);
    reader->at += bytes;
    return value;
}

/* The bits of a LEB128 number, and how many there are. Bits above the 64th are dropped. */
static uint64_t leb_read(struct cfi_reader *reader, unsigned *bits, bool *negative)
{
    uint64_t value = 0;
    uint8_t byte;
    *bits = 0;
    do {
        byte = (uint8_t)cfi_read_uint(reader, 1);
        if (*bits < 64)
            value |= (uint64_t)(byte & 0x7f) << *bits;
        *bits += 7;
    } while ((byte & 0x80) != 0 && !reader->bad);
    *negative = (byte & 0x40) != 0;
    return value;
}

uint64_t cfi_read_uleb(struct cfi_reader *reader)
{
    unsigned bits;
    bool negative;
    return leb_read(reader, &bits, &negative);
}

int64_t cfi_read_sleb(struct cfi_reader *reader)
{
    unsigned bits;
    bool negative;
    uint64_t value = leb_read(reader, &bits, &negative);
    if (negative && bits < 64)
        value |= ~(uint64_t)0 << bits;
    return (int64_t)value;
}

static uint64_t sign_extend(uint64_t value, unsigned bytes)
{
    uint64_t sign = (uint64_t)1 << (8 * bytes - 1);
    return (value ^ sign) - sign;
}

uint64_t cfi_read_pointer(struct cfi_reader *reader, uint8_t encoding, uint64_t data_base)
{
    uint64_t value, field_vaddr = reader->from->vaddr + reader->at;
    switch (encoding & CFI_FORMAT) {
    case CFI_ABSPTR:
    case CFI_UDATA8:
    case CFI_SDATA8:
        value = cfi_read_uint(reader, 8);
        break;
    case CFI_UDATA2:
        value = cfi_read_uint(reader, 2);
        break;
    case CFI_UDATA4:
        value = cfi_read_uint(reader, 4);
        break;
    case CFI_SDATA2:
        value = sign_extend(cfi_read_uint(reader, 2), 2);
        break;
    case CFI_SDATA4:
        value = sign_extend(cfi_read_uint(reader, 4), 4);
        break;
    case CFI_ULEB128:
        value = cfi_read_uleb(reader);
        break;
    case CFI_SLEB128:
        value = (uint64_t)cfi_read_sleb(reader);
        break;
    default:
        reader->bad = true;
        return 0;
    }
    switch (encoding & (CFI_RELATION | CFI_INDIRECT)) {
    case 0:
        return value;
    case CFI_PCREL:
        return value + field_vaddr;
    case CFI_DATAREL:
        return value + data_base;
    default: /* relative to text or function, indirect: nobody makes them in these places */
        reader->bad = true;
        return 0;
    }
}

bool cfi_entry_read(const struct cfi_bytes *from, size_t at, struct cfi_entry *entry)
{
    struct cfi_reader reader = {from, at, from->count, at > from->count};
    uint64_t length = cfi_read_uint(&reader, 4);
    unsigned id_bytes = 4;
    if (length == 0xffffffff) {
        length = cfi_read_uint(&reader, 8);
        id_bytes = from->debug_frame ? 8 : 4; /* .eh_frame keeps four: LSB 5.0, 10.6.1.1 */
    }
    if (reader.bad || length < id_bytes)
        return false;
    entry->cut = length > from->count - reader.at;
    entry->end = entry->cut ? from->count : reader.at + (size_t)length;
    uint64_t id_vaddr = from->vaddr + reader.at;
    uint64_t id = cfi_read_uint(&reader, id_bytes);
    uint64_t cie_id = !from->debug_frame ? 0 : id_bytes == 8 ? UINT64_MAX : 0xffffffff;
    entry->body = reader.at;
    entry->is_cie = id == cie_id;
    entry->cie_vaddr = from->debug_frame ? id : id_vaddr - id;
    return !reader.bad;
}

bool cfi_entry_next(const struct cfi_bytes *from, size_t *at, size_t *start,
                    struct cfi_entry *entry)
{
    static const uint8_t terminator[4];
    while (from->count - *at >= sizeof terminator) {
        *start = *at;
        if (memcmp(from->bytes + *at, terminator, sizeof terminator) == 0) {
            *at += sizeof terminator;
            continue;
        }
        if (!cfi_entry_read(from, *at, entry) || entry->cut)
            return false;
        *at = entry->end;
        return true;
    }
    return false;
}

/* Reads the data that the augmentation letters announce; they must be known up to the last one. */
static void augmentation_read(struct cfi_reader *reader, const char *letters, struct cfi_cie *cie)
{
    uint64_t bytes = cfi_read_uleb(reader);
    if (reader->bad || bytes > reader->end - reader->at) {
        reader->bad = true;
        return;
    }
    size_t behind = reader->at + (size_t)bytes;
    struct cfi_reader data = {reader->from, reader->at, behind, false};
    for (; *letters != '\0'; letters++) {
        if (*letters == 'R')
            cie->fde_encoding = (uint8_t)cfi_read_uint(&data, 1);
        else if (*letters ==
                 'P') /* the personality's address may be indirect: only its size counts */
            cfi_read_pointer(&data, (uint8_t)cfi_read_uint(&data, 1) & CFI_FORMAT, 0);
        else if (*letters == 'L')
            cfi_read_uint(&data, 1);
        else if (*letters == 'S')
            cie->signal_frame = true;
        else if (*letters != 'B' && *letters != 'G') /* AArch64: key B signs, frames are tagged */
            reader->bad = true;
    }
    reader->bad = reader->bad || data.bad;
    reader->at = behind;
}

/* The augmentation's letters, which end with a NUL within the entry; NULL where they do not. */
static const char *augmentation_letters(struct cfi_reader *reader)
{
    const uint8_t *letters = reader->from->bytes + reader->at;
    while (cfi_read_uint(reader, 1) != 0) {
    }
    return reader->bad ? NULL : (const char *)letters;
}

bool cfi_cie_read(const struct cfi_bytes *from, const struct cfi_entry *entry, struct cfi_cie *cie)
{
    struct cfi_reader reader = {from, entry->body, entry->end, false};
    *cie = (struct cfi_cie){.end = entry->end, .fde_encoding = CFI_ABSPTR};
    uint64_t version = cfi_read_uint(&reader, 1);
    const char *letters = augmentation_letters(&reader);
    if (letters == NULL || (version != 1 && version != 3 && version != 4))
        return false;
    if (version == 4 && cfi_read_uint(&reader, 2) != 8) /* address size 8, segment size 0 */
        return false;
    cie->code_alignment = cfi_read_uleb(&reader);
    cie->data_alignment = cfi_read_sleb(&reader);
    cie->return_register = version == 1 ? cfi_read_uint(&reader, 1) : cfi_read_uleb(&reader);
    cie->augmented = letters[0] == 'z';
    if (cie->augmented)
        augmentation_read(&reader, letters + 1, cie);
    else if (letters[0] != '\0')
        return false; /* "eh" of ancient compilers, and what nobody can skip */
    cie->instructions = reader.at;
    return !reader.bad;
}

bool cfi_fde_read(const struct cfi_bytes *from, const struct cfi_entry *entry,
                  const struct cfi_cie *cie, struct cfi_fde *fde)
{
    struct cfi_reader reader = {from, entry->body, entry->end, false};
    fde->start_vaddr = cfi_read_pointer(&reader, cie->fde_encoding, 0);
    uint64_t bytes = cfi_read_pointer(&reader, cie->fde_encoding & CFI_FORMAT, 0);
    if (reader.bad || bytes == 0 || bytes > UINT64_MAX - fde->start_vaddr)
        return false;
    fde->end_vaddr = fde->start_vaddr + bytes;
    fde->end = entry->end;
    fde->instructions = reader.at;
    if (!cie->augmented)
        return true;
    uint64_t skipped = cfi_read_uleb(&reader);
    if (!entry->cut && (reader.bad || skipped > entry->end - reader.at))
        return false;
    fde->instructions = entry->cut ? entry->end : reader.at + (size_t)skipped;
    return true;
}
