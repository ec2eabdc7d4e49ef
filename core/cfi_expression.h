/*
 * DWARF expressions of unwind tables, followed symbolically: what comes to a register plus a
 * number, or to the word in memory there plus a number, is told as such; everything else is
 * `other`.
 *
 * Source: DWARF 5 section 2.5. Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_CFI_EXPRESSION_H
#define SELFSAMPLE_CORE_CFI_EXPRESSION_H

#include <stdint.h>

#include "cfi_entry.h"

enum cfi_value_kind {
    CFI_VALUE_OTHER,
    CFI_VALUE_NUMBER,   /* offset */
    CFI_VALUE_REGISTER, /* DWARF register `base` + offset */
    CFI_VALUE_MEMORY,   /* word at (register `base` + offset) + added */
    CFI_VALUE_CFA,      /* the CFA + offset */
};

struct cfi_value {
    uint8_t kind; /* enum cfi_value_kind */
    uint8_t base;
    int64_t offset;
    int64_t added;
};

/*
 * The value of the expression that is all of READER's bytes. IP is what the instruction pointer
 * reads as, of which only bits within a page are asked; FIRST, if not NULL, lies on the stack at
 * first.
 */
struct cfi_value cfi_expression_read(struct cfi_reader *reader, uint64_t ip,
                                     const struct cfi_value *first);

#endif
