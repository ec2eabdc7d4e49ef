/* cfi_rule on instructions for AArch64, written by hand from DWARF's and Arm's tables. */
#include "cfi_rule.h"

#include "arch_fixture.h"
#include "cfi_rule_fixture.h"

/* What every CIE of AArch64 begins with: CFA = sp; the return address is in x30. */
#define CIE_USUAL "\x0c\x1f\x00"

static struct cfi_rule rule_at(const char *fde, size_t fde_bytes, uint64_t vaddr)
{
    struct cfi_bytes in_cie = {(const uint8_t *)CIE_USUAL, sizeof CIE_USUAL - 1, 0, false};
    struct cfi_bytes in_fde = {(const uint8_t *)fde, fde_bytes, 0, false};
    struct cfi_rows rows = {
        .cie_bytes = &in_cie,
        .fde_bytes = &in_fde,
        .cie = {.code_alignment = 4,
                .data_alignment = -8,
                .return_register = 30,
                .end = sizeof CIE_USUAL - 1,
                .fde_encoding = CFI_UDATA4},
        .fde = {.start_vaddr = START, .end_vaddr = START + 0x1000, .end = fde_bytes},
    };
    return cfi_rule_read(&rows, vaddr, false);
}

/* The rule of the INDEXth instruction; FDE is a literal. */
#define RULE(fde, index) rule_at(fde, sizeof(fde) - 1, START + 4 * (index))

enum { SP = 31, FP = 29 }; /* asm/perf_regs.h, too */

TEST(a_function_that_calls_nothing)
{
    CHECK_RULE(RULE("", 0), CFI_RULE_LINK, SP, 0, 0, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x0e\x30", 0), CFI_RULE_LINK, SP, 0x30, 0, CFI_FP_SAME, 0);
}

/* stp x29, x30, [sp, #-32]!; mov x29, sp; ...; ldp x29, x30, [sp], #32; ret */
TEST(a_frame_record_at_the_bottom_of_the_frame)
{
    static const char fde[] = "\x41\x0e\x20\x9d\x04\x9e\x03" /* 1: CFA = sp + 32, saved there */
                              "\x48\x0e\x00\xde\xdd";        /* 9: all is as in the CIE */
    CHECK_RULE(RULE(fde, 0), CFI_RULE_LINK, SP, 0, 0, CFI_FP_SAME, 0);
    CHECK_RULE(RULE(fde, 1), CFI_RULE_REGISTER, SP, 32, -3, CFI_FP_AT_CFA, -4);
    CHECK_RULE(RULE(fde, 8), CFI_RULE_REGISTER, SP, 32, -3, CFI_FP_AT_CFA, -4);
    CHECK_RULE(RULE(fde, 9), CFI_RULE_LINK, SP, 0, 0, CFI_FP_SAME, 0);
}

/* alloca: the frame pointer is what is counted from. */
TEST(a_frame_of_unknown_size)
{
    CHECK_RULE(RULE("\x0d\x1d\x0e\x20\x9d\x04\x9e\x03", 0), CFI_RULE_REGISTER, FP, 32, -3,
               CFI_FP_AT_CFA, -4);
}

TEST(large_frames)
{
    /* The return address is 65 words below the CFA, the frame pointer 66; or none is saved. */
    CHECK_RULE(RULE("\x0e\x90\x04\x9d\x42\x9e\x41", 0), CFI_RULE_RECORD, SP, 528, 0, CFI_FP_AT_CFA,
               -66);
    CHECK_RULE(RULE("\x0e\x90\x04\x9e\x41", 0), CFI_RULE_RECORD, SP, 528, 0, CFI_FP_SAME, -66);
    /* Not side by side: no rule says that. */
    CHECK_RULE(RULE("\x0e\x90\x04\x9d\x41\x9e\x42", 0), CFI_RULE_HAND_OVER, 0, 0, 0, CFI_FP_SAME,
               0);
    CHECK_RULE(RULE("\x0e\x90\x04\x9d\x01\x9e\x42", 0), CFI_RULE_HAND_OVER, 0, 0, 0, CFI_FP_SAME,
               0);
    /* As far as can be said, and one word more. */
    CHECK_RULE(RULE("\x9d\x80\x80\x02\x9e\xff\xff\x01", 0), CFI_RULE_RECORD, SP, 0, 0,
               CFI_FP_AT_CFA, -32768);
    CHECK_RULE(RULE("\x9e\x80\x80\x02", 0), CFI_RULE_HAND_OVER, 0, 0, 0, CFI_FP_SAME, 0);
}

/* paciasp; stp x29, x30, [sp, #-16]!: that the address is signed changes nothing. */
TEST(signed_return_addresses)
{
    static const char fde[] = "\x41\x2d\x41\x0e\x10\x9d\x02\x9e\x01\x48\x0e\x00\xde\xdd\x41\x2d";
    CHECK_RULE(RULE(fde, 1), CFI_RULE_LINK, SP, 0, 0, CFI_FP_SAME, 0);
    CHECK_RULE(RULE(fde, 2), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_RULE(RULE(fde, 11), CFI_RULE_LINK, SP, 0, 0, CFI_FP_SAME, 0);
}

/* pacibsppc: a signature that depends on the PC as well. */
TEST(return_addresses_that_are_signed_with_the_pc)
{
    CHECK_RULE(RULE("\x41\x2c\x41\x0e\x20\x9d\x04\x9e\x03", 2), CFI_RULE_REGISTER, SP, 32, -3,
               CFI_FP_AT_CFA, -4);
}

TEST(roots)
{
    CHECK_RULE(RULE("\x07\x1e", 0), CFI_RULE_ROOT, 0, 0, 0, CFI_FP_SAME, 0);
}

/* A signature is put in by this very processor, where it has that. Compilers find the address
 * behind it unchanged, whatever it is. */
TEST(signatures_are_taken_off)
{
    uint64_t address = (uint64_t)(uintptr_t)rule_at, is_signed = arch_signed(address);
    CHECK_U64(arch_return_address(address), address);
    CHECK_U64(arch_return_address(is_signed), address);
    if (is_signed == address)
        SKIP("this processor signs nothing");
}
