/* cfi_rule and cfi_expression on instructions written by hand from DWARF's and the ABI's tables. */
#include "cfi_rule.h"

#include <stdlib.h>

#include "arch.h"
#include "cfi_expression.h"
#include "cfi_rule_fixture.h"

/* What every CIE of x86-64 begins with: CFA = rsp + 8, return address at CFA - 8. */
#define CIE_USUAL "\x0c\x07\x08\x90\x01"

static struct cfi_rule rule_at_ip(const char *cie, size_t cie_bytes, const char *fde,
                                  size_t fde_bytes, uint64_t vaddr, bool signal_frame)
{
    struct cfi_bytes in_cie = {(const uint8_t *)cie, cie_bytes, 0, false};
    struct cfi_bytes in_fde = {(const uint8_t *)fde, fde_bytes, 0, false};
    struct cfi_rows rows = {
        .cie_bytes = &in_cie,
        .fde_bytes = &in_fde,
        .cie = {.code_alignment = 1,
                .data_alignment = -8,
                .return_register = 16,
                .end = cie_bytes,
                .fde_encoding = CFI_UDATA4,
                .signal_frame = signal_frame},
        .fde = {.start_vaddr = START, .end_vaddr = START + 0x1000, .end = fde_bytes},
    };
    return cfi_rule_read(&rows, vaddr, false);
}

/* The rule at START + AT behind the usual CIE; FDE is a literal. */
#define RULE(fde, at)                                                                              \
    rule_at_ip(CIE_USUAL, sizeof CIE_USUAL - 1, fde, sizeof(fde) - 1, START + (at), false)

#define CHECK_KIND(rule, wanted)                                                                   \
    do {                                                                                           \
        struct cfi_rule kind_of_ = (rule);                                                         \
        CHECK_U64(kind_of_.kind, wanted);                                                          \
    } while (0)

enum { SP = ARCH_PERF_INDEX_SP, FP = ARCH_PERF_INDEX_FP, RDI = 5 };

/* push %rbp; mov %rsp, %rbp; ...; leave; ret */
TEST(a_function_with_a_frame_pointer)
{
    static const char fde[] = "\x41\x0e\x10\x86\x02" /* 1: CFA = rsp + 16, rbp at CFA - 16 */
                              "\x43\x0d\x06"         /* 4: CFA = rbp + 16 */
                              "\x02\x40\x0c\x07\x08" /* 0x44: CFA = rsp + 8 */
                              "\xc6";                /* rbp is as in the CIE */
    CHECK_RULE(RULE(fde, 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE(fde, 1), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_RULE(RULE(fde, 3), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_RULE(RULE(fde, 4), CFI_RULE_REGISTER, FP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_RULE(RULE(fde, 0x43), CFI_RULE_REGISTER, FP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_RULE(RULE(fde, 0x44), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
}

TEST(every_way_to_go_on)
{
    CHECK_RULE(RULE("\x02\x02\x0e\x10", 2), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x03\x00\x02\x0e\x10", 0x1ff), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x03\x00\x02\x0e\x10", 0x200), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x04\x00\x02\x00\x00\x0e\x10", 0x200), CFI_RULE_REGISTER, SP, 16, -1,
               CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x01\x00\x12\x00\x00\x0e\x10", 0x1ff), CFI_RULE_REGISTER, SP, 8, -1,
               CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x01\x00\x12\x00\x00\x0e\x10", 0x200), CFI_RULE_REGISTER, SP, 16, -1,
               CFI_FP_SAME, 0);
}

TEST(rows_that_are_remembered)
{
    static const char fde[] = "\x41\x0e\x10\x86\x02\x41\x0a\x0e\x08\xc6\x41\x0b";
    CHECK_RULE(RULE(fde, 2), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE(fde, 3), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_AT_CFA, -2);
    CHECK_KIND(RULE("\x0b", 0), CFI_RULE_HAND_OVER);
    CHECK_KIND(RULE("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", 0), CFI_RULE_REGISTER);
    CHECK_KIND(RULE("\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a\x0a", 0), CFI_RULE_HAND_OVER);
}

TEST(offsets_that_are_signed_or_extended)
{
    CHECK_RULE(RULE("\x12\x07\x7e", 0), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x13\x7d", 0), CFI_RULE_REGISTER, SP, 24, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x05\x06\x03", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA, -3);
    CHECK_RULE(RULE("\x11\x06\x7f", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA, 1);
    CHECK_RULE(RULE("\x2f\x06\x03", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA, 3);
    CHECK_RULE(RULE("\x86\x02\x06\x06", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x90\x03", 0), CFI_RULE_REGISTER, SP, 8, -3, CFI_FP_SAME, 0);
    /* Other registers do not matter, nor do the arguments' bytes. */
    CHECK_RULE(RULE("\x83\x02\x2e\x10\x09\x0c\x0d\x14\x0c\x01", 0), CFI_RULE_REGISTER, SP, 8, -1,
               CFI_FP_SAME, 0);
}

TEST(a_cfa_by_another_register)
{
    CHECK_RULE(RULE("\x0c\x0a\x00", 0), CFI_RULE_REGISTER, 11, 0, -1, CFI_FP_SAME, 0); /* r10 */
    CHECK_KIND(RULE("\x0c\x11\x00", 0), CFI_RULE_HAND_OVER);                           /* xmm0 */
}

TEST(roots_and_what_is_lost)
{
    CHECK_KIND(RULE("\x07\x10", 0), CFI_RULE_ROOT);
    CHECK_RULE(RULE("\x07\x06", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_LOST, 0);
    CHECK_RULE(RULE("\x07\x06\x08\x06", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_SAME, 0);
    CHECK_KIND(RULE("\x08\x10", 0), CFI_RULE_HAND_OVER); /* the return address is the same */
    CHECK_RULE(RULE("\x09\x10\x05", 0), CFI_RULE_HAND_OVER, RDI, 8, 1, CFI_FP_SAME, 0); /* vfork */
    CHECK_RULE(RULE("\x09\x10\x11", 0), CFI_RULE_HAND_OVER, 0, 0, 0, CFI_FP_SAME, 0);   /* xmm0 */
    CHECK_RULE(RULE("\x09\x10\x02\x0c\x05\x00", 0), CFI_RULE_HAND_OVER, 0, 0, 0, CFI_FP_SAME,
               0);                                           /* longjmp: there is another stack */
    CHECK_KIND(RULE("\x14\x07\x00", 0), CFI_RULE_HAND_OVER); /* rsp is not the CFA */
}

TEST(what_is_too_large_for_a_rule)
{
    CHECK_RULE(RULE("\x0e\xff\xff\xff\xff\x07", 0), CFI_RULE_REGISTER, SP, 0x7fffffff, -1,
               CFI_FP_SAME, 0);
    CHECK_KIND(RULE("\x0e\x80\x80\x80\x80\x08", 0), CFI_RULE_HAND_OVER);
    CHECK_RULE(RULE("\x86\x80\x80\x02", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA, -32768);
    CHECK_KIND(RULE("\x86\x81\x80\x02", 0), CFI_RULE_HAND_OVER);
    CHECK_RULE(RULE("\x90\x20", 0), CFI_RULE_REGISTER, SP, 8, -32, CFI_FP_SAME, 0);
    CHECK_RULE(RULE("\x90\x21", 0), CFI_RULE_RECORD, SP, 8, 0, CFI_FP_SAME, -34);
    CHECK_KIND(RULE("\x86\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 0), CFI_RULE_HAND_OVER);
}

/* x86-64 psABI: rsp + 8 + ((rip & 15) >= 11) * 8 in the slots of a PLT. */
TEST(the_slots_of_a_plt)
{
    static const char fde[] = "\x0e\x10\x46\x0e\x18\x4a"
                              "\x0f\x0b\x77\x08\x80\x00\x3f\x1a\x3b\x2a\x33\x24\x22";
    CHECK_RULE(RULE(fde, 0), CFI_RULE_REGISTER, SP, 16, -1, CFI_FP_SAME, 0);
    CHECK_RULE(RULE(fde, 6), CFI_RULE_REGISTER, SP, 24, -1, CFI_FP_SAME, 0);
    for (unsigned at = 16; at < 64; at++)
        CHECK_RULE(RULE(fde, at), CFI_RULE_REGISTER, SP, at % 16 >= 11 ? 16 : 8, -1, CFI_FP_SAME,
                   0);
}

/* What gcc makes of main() where it aligns the stack: the old one's address is kept at rbp - 8. */
TEST(a_function_that_aligns_its_stack)
{
    CHECK_RULE(RULE("\x0f\x03\x76\x78\x06\x10\x06\x02\x76\x00", 0), CFI_RULE_MEMORY, FP, -8, 0,
               CFI_FP_AT_FP, 0);
    CHECK_RULE(RULE("\x10\x06\x02\x76\x08", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_FP, 1);
}

/* What OpenSSL's assembly says: the stack pointer of before is kept at rsp + 88. */
TEST(a_stack_pointer_kept_in_memory)
{
    CHECK_RULE(RULE("\x0f\x06\x77\xd8\x00\x06\x23\x08", 0), CFI_RULE_MEMORY, SP, 88, 1, CFI_FP_SAME,
               0);
    CHECK_RULE(RULE("\x0f\x05\x77\xd8\x00\x06\x38\x22", 0), CFI_RULE_HAND_OVER, 0, 0, 0,
               CFI_FP_SAME, 0); /* the last byte is beyond the block */
    CHECK_RULE(RULE("\x0f\x06\x77\xd8\x00\x06\x38\x22", 0), CFI_RULE_MEMORY, SP, 88, 1, CFI_FP_SAME,
               0);
}

/* The expression's stack begins with the CFA. */
TEST(a_register_by_an_expression_of_the_cfa)
{
    CHECK_RULE(RULE("\x10\x06\x02\x23\x08", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA, 1);
    CHECK_RULE(RULE("\x10\x06\x03\x09\xf0\x22", 0), CFI_RULE_REGISTER, SP, 8, -1, CFI_FP_AT_CFA,
               -2);
}

/* As in glibc's __restore_rt. */
#define CONTEXT_CFA "\x0f\x04\x77\xa0\x01\x06"
#define CONTEXT_FP  "\x10\x06\x03\x77\xf8\x00"
#define CONTEXT_IP  "\x10\x10\x03\x77\xa8\x01"
static struct cfi_rule signal_rule(const char *fde, size_t bytes)
{
    return rule_at_ip("", 0, fde, bytes, START, true);
}

TEST(a_signals_context)
{
    static const char whole[] = CONTEXT_CFA CONTEXT_FP CONTEXT_IP;
    CHECK_KIND(signal_rule(whole, sizeof whole - 1), CFI_RULE_SIGNAL);
    static const char elsewhere[] = CONTEXT_CFA CONTEXT_FP "\x10\x10\x03\x77\xa0\x01";
    CHECK_KIND(signal_rule(elsewhere, sizeof elsewhere - 1), CFI_RULE_HAND_OVER);
    static const char without[] = CONTEXT_CFA CONTEXT_IP;
    CHECK_KIND(signal_rule(without, sizeof without - 1), CFI_RULE_HAND_OVER);
    CHECK_KIND(rule_at_ip("", 0, whole, sizeof whole - 1, START, false), CFI_RULE_HAND_OVER);
}

TEST(expressions_that_are_not_followed)
{
    CHECK_KIND(RULE("\x0f\x00", 0), CFI_RULE_HAND_OVER);                 /* empty */
    CHECK_KIND(RULE("\x0f\x01\x22", 0), CFI_RULE_HAND_OVER);             /* nothing to add */
    CHECK_KIND(RULE("\x0f\x01\x31", 0), CFI_RULE_HAND_OVER);             /* a number */
    CHECK_KIND(RULE("\x0f\x04\x77\x00\x06\x06", 0), CFI_RULE_HAND_OVER); /* twice */
    CHECK_KIND(RULE("\x0f\x02\x80\x00", 0), CFI_RULE_REGISTER); /* in the instruction pointer */
    CHECK_KIND(RULE("\x0f\x05\x77\x00\x76\x00\x22", 0), CFI_RULE_HAND_OVER); /* rsp + rbp */
    CHECK_KIND(RULE("\x0f\x03\x2f\x00\x00", 0), CFI_RULE_HAND_OVER);         /* skip */
    CHECK_KIND(RULE("\x0f\x09\x31\x31\x31\x31\x31\x31\x31\x31\x31", 0), CFI_RULE_HAND_OVER);
}

TEST(instructions_that_are_damaged)
{
    CHECK_KIND(RULE("\x3f", 0), CFI_RULE_HAND_OVER);             /* unknown */
    CHECK_KIND(RULE("\x0e", 0), CFI_RULE_HAND_OVER);             /* without its operand */
    CHECK_KIND(RULE("\x0f\xff\xff\x7f", 0), CFI_RULE_HAND_OVER); /* a block longer than the entry */
    CHECK_KIND(RULE("\x0f\x01\x50\x0d\x06", 0), CFI_RULE_HAND_OVER); /* no register to change */
    CHECK_KIND(rule_at_ip("\x3f", 1, "", 0, START, false), CFI_RULE_HAND_OVER);
    CHECK_KIND(rule_at_ip("", 0, "", 0, START, false), CFI_RULE_HAND_OVER); /* no CFA */
}

/* Any bytes at all: the entry's own memory is not left. (Sanitizers look.) */
TEST(random_instructions)
{
    uint64_t random = 7;
    for (unsigned round = 0; round < 200000; round++) {
        size_t bytes = round % 24;
        char *fde = malloc(bytes + 1);
        for (size_t i = 0; i < bytes; i++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            fde[i] = (char)(round % 2 == 0 ? random >> 56 : (random >> 56) % 0x30);
        }
        struct cfi_rule rule = rule_at_ip(CIE_USUAL, sizeof CIE_USUAL - 1, fde, bytes,
                                          START + round % 64, round % 5 == 0);
        CHECK(rule.kind >= CFI_RULE_HAND_OVER && rule.kind <= CFI_RULE_SIGNAL &&
              rule.base < ARCH_PERF_REGISTER_COUNT);
        free(fde);
    }
}
