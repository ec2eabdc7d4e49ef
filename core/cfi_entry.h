/*
 * Call frame information, entry by entry: decodes the CIEs and FDEs of .eh_frame and .debug_frame
 * from bytes in memory. It reads what an entry covers and where its instructions are, not what they
 * mean.
 *
 * Sources of the formats: LSB 5.0 sections 10.5 and 10.6 (.eh_frame, pointer encodings); DWARF 5
 * section 6.4.1 (.debug_frame); DWARF for the Arm 64-bit architecture (augmentations B and G).
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_CFI_ENTRY_H
#define SELFSAMPLE_CORE_CFI_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Pointer encodings (LSB 5.0 table 10-5 and 10-6): format | relation | indirection. */
#define CFI_ABSPTR   0x00
#define CFI_ULEB128  0x01
#define CFI_UDATA2   0x02
#define CFI_UDATA4   0x03
#define CFI_UDATA8   0x04
#define CFI_SLEB128  0x09
#define CFI_SDATA2   0x0a
#define CFI_SDATA4   0x0b
#define CFI_SDATA8   0x0c
#define CFI_FORMAT   0x0f
#define CFI_PCREL    0x10
#define CFI_DATAREL  0x30
#define CFI_RELATION 0x70
#define CFI_INDIRECT 0x80
#define CFI_OMIT     0xff

/* Bytes of a section, or of a part of one that begins at an entry. */
struct cfi_bytes {
    const uint8_t *bytes;
    size_t count;
    uint64_t vaddr;   /* of bytes[0]; in .debug_frame: its offset in the section */
    bool debug_frame; /* the section is .debug_frame, else .eh_frame */
};

/* Reads fields from FROM's bytes [at, end); past the end it gives 0 and sets `bad`. */
struct cfi_reader {
    const struct cfi_bytes *from;
    size_t at;
    size_t end; /* <= from->count */
    bool bad;
};

uint64_t cfi_read_uint(struct cfi_reader *reader, unsigned bytes);
uint64_t cfi_read_uleb(struct cfi_reader *reader);
int64_t cfi_read_sleb(struct cfi_reader *reader);

/* A pointer of that ENCODING; DATA_BASE is what DATAREL is relative to. Indirect ones are `bad`. */
uint64_t cfi_read_pointer(struct cfi_reader *reader, uint8_t encoding, uint64_t data_base);

/* Where an entry lies. */
struct cfi_entry {
    size_t body;        /* index of what follows the id field */
    size_t end;         /* index behind the entry, or the end of the bytes where they stop before */
    uint64_t cie_vaddr; /* of an FDE: where its CIE is, in terms of cfi_bytes.vaddr */
    bool is_cie;
    bool cut; /* the entry goes on behind the bytes */
};

/* The entry at index AT; false at a terminator (length 0), the end, or damage. */
bool cfi_entry_read(const struct cfi_bytes *from, size_t at, struct cfi_entry *entry);

/*
 * Walks all entries: *AT is 0 at first, START gets the index of the entry. Passes terminators,
 * which linkers may leave in the middle. False at the end, or where the section is damaged.
 */
bool cfi_entry_next(const struct cfi_bytes *from, size_t *at, size_t *start,
                    struct cfi_entry *entry);

struct cfi_cie {
    uint64_t code_alignment;
    int64_t data_alignment;
    uint64_t return_register;
    size_t instructions; /* index of the first byte; they end with the entry */
    size_t end;
    uint8_t fde_encoding;
    bool signal_frame;
    bool augmented; /* FDEs carry augmentation data with a length */
};

/* Decodes the CIE that cfi_entry_read found. False: damaged or of a kind that is not known. */
bool cfi_cie_read(const struct cfi_bytes *from, const struct cfi_entry *entry, struct cfi_cie *cie);

struct cfi_fde {
    uint64_t start_vaddr; /* first address covered */
    uint64_t end_vaddr;   /* behind the last one; > start_vaddr */
    size_t instructions;
    size_t end;
};

/*
 * Decodes the addresses of an FDE and finds its instructions. False: damaged, or it covers nothing.
 * Where the entry is cut, the addresses are right and the instructions are not whole.
 */
bool cfi_fde_read(const struct cfi_bytes *from, const struct cfi_entry *entry,
                  const struct cfi_cie *cie, struct cfi_fde *fde);

#endif
