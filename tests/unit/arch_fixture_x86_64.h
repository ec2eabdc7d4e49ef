/* x86-64: see arch_fixture.h. */
#ifndef SELFSAMPLE_TESTS_ARCH_FIXTURE_X86_64_H
#define SELFSAMPLE_TESTS_ARCH_FIXTURE_X86_64_H

/* call rel32, as the bytes that tell it, and as long as it is. */
static const uint8_t arch_call_code[] = {0xe8};
#define ARCH_CALL_LENGTH 5u

#define ARCH_NOTHING_CODE 0x90 /* nop, or any byte that is in no call */

/*
 * bare_leaf has no unwind information; bare_caller has, and calls it with a frame pointer that
 * leads nowhere. As in the stubs of libc, the word on top of the stack is the return address.
 */
#define ARCH_BARE_CODE                                                                             \
    ".text\n"                                                                                      \
    "bare_leaf:\n"                                                                                 \
    "1: decq %rdi\n"                                                                               \
    "jnz 1b\n"                                                                                     \
    "ret\n"                                                                                        \
    ".skip 512, 0x90\n" /* nothing else counts as this function */                                 \
    "bare_caller:\n"                                                                               \
    ".cfi_startproc\n"                                                                             \
    "pushq %rbp\n"                                                                                 \
    ".cfi_adjust_cfa_offset 8\n"                                                                   \
    ".cfi_rel_offset %rbp, 0\n"                                                                    \
    "xorl %ebp, %ebp\n"                                                                            \
    "call bare_leaf\n"                                                                             \
    "bare_caller_goes_on:\n"                                                                       \
    "popq %rbp\n"                                                                                  \
    ".cfi_adjust_cfa_offset -8\n"                                                                  \
    ".cfi_restore %rbp\n"                                                                          \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"

/* As compilers do, it does not say that the frame pointer has been popped: that is kept below the
 * stack pointer now, in no sample. */
#define ARCH_POPPED_CODE                                                                           \
    ".text\n"                                                                                      \
    "popped_leaf:\n"                                                                               \
    ".cfi_startproc\n"                                                                             \
    "pushq %rbp\n"                                                                                 \
    ".cfi_adjust_cfa_offset 8\n"                                                                   \
    ".cfi_rel_offset %rbp, 0\n"                                                                    \
    "popq %rbp\n"                                                                                  \
    ".cfi_adjust_cfa_offset -8\n"                                                                  \
    "1: decq %rdi\n"                                                                               \
    "jnz 1b\n"                                                                                     \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"                                                                               \
    ".skip 512, 0x90\n"

/* A function that keeps its return address in a register, which has DWARF's number 9; at kept_here
 * it is there. */
#define ARCH_KEPT_CODE                                                                             \
    ".text\n.globl kept_here\n"                                                                    \
    "kept:\n"                                                                                      \
    ".cfi_startproc\n"                                                                             \
    "popq %r9\n"                                                                                   \
    ".cfi_adjust_cfa_offset -8\n"                                                                  \
    ".cfi_register 16, 9\n"                                                                        \
    "kept_here: nop\n"                                                                             \
    "jmp *%r9\n"                                                                                   \
    ".cfi_endproc\n"

/* A return address as the processor may sign it: this one does not. */
static inline uint64_t arch_signed(uint64_t address)
{
    return address;
}

/* A function that aligns its stack, and whose frame is found by a register that its callees save.
 */
#define ARCH_ALIGNED_REGISTER "rbx"
#define ARCH_ALIGNED_CODE                                                                          \
    ".text\n"                                                                                      \
    "aligned:\n"                                                                                   \
    ".cfi_startproc\n"                                                                             \
    "pushq %rbx\n"                                                                                 \
    ".cfi_def_cfa_offset 16\n"                                                                     \
    ".cfi_offset %rbx, -16\n"                                                                      \
    "movq %rsp, %rbx\n"                                                                            \
    ".cfi_def_cfa_register %rbx\n"                                                                 \
    "andq $-64, %rsp\n"                                                                            \
    "call aligned_callee\n"                                                                        \
    "movq %rbx, %rsp\n"                                                                            \
    ".cfi_def_cfa_register %rsp\n"                                                                 \
    "popq %rbx\n"                                                                                  \
    ".cfi_def_cfa_offset 8\n"                                                                      \
    ".cfi_restore %rbx\n"                                                                          \
    "ret\n"                                                                                        \
    ".cfi_endproc\n"

/* What begins like a stub of a PLT. */
#define ARCH_JUMP_CODE "jmp *puts@GOTPCREL(%rip)"

/* How stubs are made that indirect branches may lead to; where such stubs are, and those of
 * functions whose address is taken; how objdump tells the word that a stub jumps through. */
#define ARCH_BRANCH_TRACKING "-fcf-protection -Wl,-z,ibtplt"
#define ARCH_PLT_OF_TRACKING ".plt.sec"
#define ARCH_PLT_OF_TAKEN    ".plt.got"
#define ARCH_PLT_SLOT_SED    "s/^ *\\([0-9a-f]*\\):.*jmp  *\\*.*# \\([0-9a-f]*\\).*/\\1 \\2/p"

/* An object file, to objcopy. */
#define ARCH_OBJCOPY_TARGET "-O elf64-x86-64 -B i386:x86-64"

/* Writes to where nothing is. */
#define ARCH_FAULT_CODE "movl $1, 8" :: : "memory"

static const struct leave_case arch_leave_cases[] = {
    {{0xc3}, 0, 0, 0},
    {{0x48, 0x83, 0xc4, 0x18, 0xc3}, 0, 3, 0},                   /* add $24, %rsp; ret */
    {{0x48, 0x81, 0xc4, 0x20, 0x00, 0x00, 0x00, 0xc3}, 0, 4, 0}, /* the same of 4 bytes */
    {{0x48, 0x83, 0xc4, 0x08, 0x5d, 0xc3}, 0, 1, 1},             /* ..; pop %rbp; ret */
    {{0x5d, 0xf3, 0xc3}, 0, 0, 1},
    {{0x55, 0x48, 0x89, 0xe5}, 1, 0, 1}, /* push %rbp | mov %rsp, %rbp */
};

static const struct {
    uint8_t code[ARCH_CALL_BYTES];
    int is_call;
} arch_call_cases[] = {
    {{0x90, 0x90, 0xe8, 1, 2, 3, 4}, 1},             /* call rel32 */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xd0}, 1}, /* call *%rax */
    {{0x90, 0x90, 0x90, 0x90, 0x41, 0xff, 0xd4}, 1}, /* call *%r12 */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x10}, 1}, /* call *(%rax) */
    {{0x90, 0x90, 0x90, 0x90, 0xff, 0x50, 0x08}, 1}, /* call *8(%rax) */
    {{0x90, 0x90, 0x90, 0x90, 0xff, 0x14, 0xd0}, 1}, /* call *(%rax,%rdx,8) */
    {{0x90, 0x90, 0x90, 0xff, 0x54, 0x24, 0x10}, 1}, /* call *16(%rsp) */
    {{0x90, 0xff, 0x15, 1, 2, 3, 4}, 1},             /* call *disp32(%rip) */
    {{0x90, 0xff, 0x90, 1, 2, 3, 4}, 1},             /* call *disp32(%rax) */
    {{0xff, 0x94, 0x24, 1, 2, 3, 4}, 1},             /* call *disp32(%rsp) */
    {{0xff, 0x14, 0xc5, 1, 2, 3, 4}, 1},             /* call *disp32(,%rax,8) */
    {{0x90, 0x90, 0xe9, 1, 2, 3, 4}, 0},             /* jmp rel32 */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0xe0}, 0}, /* jmp *%rax */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0x0f, 0x05}, 0}, /* syscall */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90}, 0}, /* nop */
    {{0x90, 0x90, 0x90, 0x90, 0x90, 0xff, 0x15}, 0}, /* only the start of a call */
};

#endif
