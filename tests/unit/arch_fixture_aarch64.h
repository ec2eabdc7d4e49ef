/* AArch64: see arch_fixture.h. The encodings are those of GNU as. */
#ifndef SELFSAMPLE_TESTS_ARCH_FIXTURE_AARCH64_H
#define SELFSAMPLE_TESTS_ARCH_FIXTURE_AARCH64_H

/* bl .-8 */
static const uint8_t arch_call_code[] = {0xfe, 0xff, 0xff, 0x97};
#define ARCH_CALL_LENGTH 4u

#define ARCH_NOTHING_CODE 0x1f /* four of them are no call */

/*
 * bare_leaf has no unwind information; bare_caller has, and calls it with a frame pointer that
 * leads nowhere. The return address is in x30. (Labels are global: that of a local one would be
 * taken out of the table of addresses by its section.)
 */
#define ARCH_BARE_CODE                                                                             \
    ".text\n.align 2\n"                                                                            \
    ".globl bare_leaf\n.globl bare_caller\n.globl bare_caller_goes_on\n"                           \
    "bare_leaf:\n"                                                                                 \
    "1: subs x0, x0, #1\n"                                                                         \
    "b.ne 1b\n"                                                                                    \
    "ret\n"                                                                                        \
    ".skip 512, 0\n" /* nothing else counts as this function */                                    \
    "bare_caller:\n"                                                                               \
    ".cfi_startproc\n"                                                                             \
    "stp x29, x30, [sp, #-16]!\n"                                                                  \
    ".cfi_adjust_cfa_offset 16\n"                                                                  \
    ".cfi_offset 29, -16\n"                                                                        \
    ".cfi_offset 30, -8\n"                                                                         \
    "mov x29, xzr\n"                                                                               \
    "bl bare_leaf\n"                                                                               \
    "bare_caller_goes_on:\n"                                                                       \
    "ldp x29, x30, [sp], #16\n"                                                                    \
    ".cfi_adjust_cfa_offset -16\n"                                                                 \
    ".cfi_restore 29\n"                                                                            \
    ".cfi_restore 30\n"                                                                            \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"

/* It does not say that the frame pointer has been popped: that is kept below the stack pointer now,
 * in no sample. */
#define ARCH_POPPED_CODE                                                                           \
    ".text\n.align 2\n.globl popped_leaf\n"                                                        \
    "popped_leaf:\n"                                                                               \
    ".cfi_startproc\n"                                                                             \
    "stp x29, x30, [sp, #-16]!\n"                                                                  \
    ".cfi_adjust_cfa_offset 16\n"                                                                  \
    ".cfi_offset 29, -16\n"                                                                        \
    ".cfi_offset 30, -8\n"                                                                         \
    "ldp x29, x30, [sp], #16\n"                                                                    \
    ".cfi_adjust_cfa_offset -16\n"                                                                 \
    ".cfi_restore 30\n"                                                                            \
    "1: subs x0, x0, #1\n"                                                                         \
    "b.ne 1b\n"                                                                                    \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"                                                                               \
    ".skip 512, 0\n"

/* A function that keeps its return address in a register, which has DWARF's number 9; at kept_here
 * it is there. */
#define ARCH_KEPT_CODE                                                                             \
    ".text\n.align 2\n.globl kept_here\n"                                                          \
    "kept:\n"                                                                                      \
    ".cfi_startproc\n"                                                                             \
    "mov x9, x30\n"                                                                                \
    ".cfi_register 30, 9\n"                                                                        \
    "kept_here: nop\n"                                                                             \
    "ret x9\n"                                                                                     \
    ".cfi_endproc\n"

/* A return address as this very processor signs it; the same where it signs nothing. */
static inline uint64_t arch_signed(uint64_t address)
{
    register uint64_t x17 __asm__("x17") = address;
    register uint64_t x16 __asm__("x16") = 0x1234; /* what is signed with it */
    __asm__("hint #8" : "+r"(x17) : "r"(x16));     /* pacia1716 */
    return x17;
}

/* A function that aligns its stack, and whose frame is found by a register that its callees save.
 */
#define ARCH_ALIGNED_REGISTER "x19"
#define ARCH_ALIGNED_CODE                                                                          \
    ".text\n.align 2\n.globl aligned\n"                                                            \
    "aligned:\n"                                                                                   \
    ".cfi_startproc\n"                                                                             \
    "stp x19, x30, [sp, #-16]!\n"                                                                  \
    ".cfi_def_cfa_offset 16\n"                                                                     \
    ".cfi_offset 19, -16\n"                                                                        \
    ".cfi_offset 30, -8\n"                                                                         \
    "mov x19, sp\n"                                                                                \
    ".cfi_def_cfa_register 19\n"                                                                   \
    "sub x9, x19, #16\n"                                                                           \
    "and sp, x9, #-64\n"                                                                           \
    "bl aligned_callee\n"                                                                          \
    "mov sp, x19\n"                                                                                \
    ".cfi_def_cfa_register 31\n"                                                                   \
    "ldp x19, x30, [sp], #16\n"                                                                    \
    ".cfi_def_cfa_offset 0\n"                                                                      \
    ".cfi_restore 19\n"                                                                            \
    ".cfi_restore 30\n"                                                                            \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"

/* What begins like a stub of a PLT. */
#define ARCH_JUMP_CODE "adrp x16, :got:puts; ldr x17, [x16, :got_lo12:puts]; br x17"

/* As for x86-64; objdump does not tell the word that a stub jumps through. */
#define ARCH_BRANCH_TRACKING "-mbranch-protection=standard -Wl,-z,force-bti"
#define ARCH_PLT_OF_TRACKING ".plt"
#define ARCH_PLT_OF_TAKEN    ".plt"
#define ARCH_PLT_SLOT_SED    ""

/* An object file, to objcopy. */
#define ARCH_OBJCOPY_TARGET "-O elf64-littleaarch64 -B aarch64"

/* Writes to where nothing is. */
#define ARCH_FAULT_CODE "mov x9, #8\n\tstr x9, [x9]" :: : "x9"

static const struct leave_case arch_leave_cases[] = {
    /* ldp x29, x30, [sp], #48; ret */
    {{0xfd, 0x7b, 0xc3, 0xa8, 0xc0, 0x03, 0x5f, 0xd6}, 0, 0, 1},
    /* stp x29, x30, [sp, #-32]! | mov x29, sp */
    {{0xfd, 0x7b, 0xbe, 0xa9, 0xfd, 0x03, 0x00, 0x91}, 4, 0, 1},
};

static const struct {
    uint8_t code[ARCH_CALL_BYTES];
    int is_call;
} arch_call_cases[] = {
    {{0x00, 0x04, 0x00, 0x94}, 1}, /* bl .+0x1000 */
    {{0xfe, 0xff, 0xff, 0x97}, 1}, /* bl .-8 */
    {{0x60, 0x00, 0x3f, 0xd6}, 1}, /* blr x3 */
    {{0x64, 0x08, 0x3f, 0xd7}, 1}, /* blraa x3, x4 */
    {{0x7f, 0x08, 0x3f, 0xd6}, 1}, /* blraaz x3 */
    {{0x7f, 0x0c, 0x3f, 0xd7}, 1}, /* blrab x3, sp */
    {{0x3f, 0x0e, 0x3f, 0xd6}, 1}, /* blrabz x17 */
    {{0x02, 0x00, 0x00, 0x14}, 0}, /* b .+8 */
    {{0x60, 0x00, 0x1f, 0xd6}, 0}, /* br x3 */
    {{0x64, 0x08, 0x1f, 0xd7}, 0}, /* braa x3, x4 */
    {{0xc0, 0x03, 0x5f, 0xd6}, 0}, /* ret */
    {{0xff, 0x0b, 0x5f, 0xd6}, 0}, /* retaa */
    {{0x01, 0x00, 0x00, 0xd4}, 0}, /* svc #0 */
    {{0x1f, 0x20, 0x03, 0xd5}, 0}, /* nop */
    {{0x40, 0x00, 0x00, 0xb4}, 0}, /* cbz x0, .+8 */
};

#endif
