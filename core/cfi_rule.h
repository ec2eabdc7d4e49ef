/*
 * Unwind rules: what the instructions of a CIE and an FDE say about one place in the code, as far
 * as it can be said in eight bytes: where the caller's frame begins (the CFA), where the return
 * address and the caller's frame pointer are. Expressions are followed as far as they come to that
 * (those of PLTs, of functions that align their stack, of signal returns); what goes further is
 * handed over to a full unwinder.
 *
 * Sources: DWARF 5 sections 2.5 and 6.4; LSB 5.0 section 10.5; x86-64 psABI section 3.7; DWARF for
 * the Arm 64-bit architecture.
 * Thread safety: no state.
 */
#ifndef SELFSAMPLE_CORE_CFI_RULE_H
#define SELFSAMPLE_CORE_CFI_RULE_H

#include <stdbool.h>
#include <stdint.h>

#include "cfi_entry.h"

enum cfi_rule_kind {
    CFI_RULE_NONE,      /* no unwind information covers the place */
    CFI_RULE_HAND_OVER, /* there is more to it than a rule can say; where `words` is not 0, CFA =
                           the stack pointer + offset, and the return address is in register `base`
                         */
    CFI_RULE_ROOT,      /* nobody called this function */
    CFI_RULE_REGISTER,  /* CFA = register `base` + offset; return address at CFA + 8 * words */
    CFI_RULE_LINK,      /* the same CFA; return address in its register, see arch_link */
    CFI_RULE_RECORD,    /* the same CFA; return address at CFA + 8 * (fp_words + 1) */
    CFI_RULE_MEMORY,    /* CFA = word at (register `base` + offset) + 8 * words; return address at
                           CFA - 8 */
    CFI_RULE_SIGNAL,    /* a signal's context lies at the stack pointer, with all registers */
};

/* Where the caller's frame pointer is, or another register of the caller's. */
enum cfi_rule_fp {
    CFI_FP_SAME,   /* in its register */
    CFI_FP_AT_CFA, /* in memory at CFA + 8 * fp_words */
    CFI_FP_AT_FP,  /* in memory at the frame pointer + 8 * fp_words */
    CFI_FP_LOST,
};

struct cfi_rule {
    int32_t offset;
    int16_t fp_words;
    uint16_t kind : 3; /* enum cfi_rule_kind */
    uint16_t base : 5; /* index into a sample's registers (ARCH_PERF_INDEX_*) */
    uint16_t fp : 2;   /* enum cfi_rule_fp */
    int16_t words : 6;
};

/* A CIE and one of its FDEs, each with the bytes that it was read from. */
struct cfi_rows {
    const struct cfi_bytes *cie_bytes;
    const struct cfi_bytes *fde_bytes;
    struct cfi_cie cie;
    struct cfi_fde fde;
    unsigned followed; /* the register that `fp` of the rule is to tell of, ARCH_PERF_INDEX_*; 0:
                          the frame pointer */
};

/*
 * The rule at VADDR, which the FDE covers; addresses as the FDE has them. For a caller VADDR is the
 * last byte of its call: IS_CALL. Damaged instructions are handed over. Its time is bounded by the
 * bytes of both entries.
 */
struct cfi_rule cfi_rule_read(const struct cfi_rows *rows, uint64_t vaddr, bool is_call);

#endif
