/* AArch64: system calls, the helper's start, registers of a sample, layout of the thread block. */
#ifndef SELFSAMPLE_CORE_ARCH_AARCH64_H
#define SELFSAMPLE_CORE_ARCH_AARCH64_H

#include <stddef.h>
#include <stdint.h>

static inline long arch_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc #0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory", "cc");
    return x0;
}

/*
 * clone(2) with a stack of its own for the child, which calls ENTRY(ARGUMENT) and must not return.
 * STACK_TOP is aligned to 16. Returns the child's pid, or -errno.
 */
static inline long arch_clone(unsigned long flags, void *stack_top, int *parent_tid, int *child_tid,
                              void *tls, void (*entry)(void *), void *argument)
{
    register long x8 __asm__("x8") = 220;
    register long x0 __asm__("x0") = (long)flags;
    register void *x1 __asm__("x1") = stack_top;
    register int *x2 __asm__("x2") = parent_tid;
    register void *x3 __asm__("x3") = tls; /* before child_tid, unlike elsewhere */
    register int *x4 __asm__("x4") = child_tid;
    register void *child_entry __asm__("x10") = (void *)entry;
    register void *child_argument __asm__("x11") = argument;
    __asm__ volatile("svc #0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, xzr\n\t"
                     "mov x0, x11\n\t"
                     "blr x10\n\t"
                     "brk #0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(child_entry),
                       "r"(child_argument)
                     : "memory", "cc", "x30");
    return x0;
}

/* Copies upwards, in words as long as there are any. */
static inline void arch_copy(void *to, const void *from, size_t bytes)
{
    uint8_t *t = to;
    const uint8_t *f = from;
    for (; bytes >= 16; bytes -= 16, t += 16, f += 16)
        __builtin_memcpy(t, f, 16);
    for (; bytes > 0; bytes--)
        *t++ = *f++;
}

static inline void arch_fill(void *to, int value, size_t bytes)
{
    uint8_t *t = to;
    uint64_t word = (uint8_t)value * 0x0101010101010101u;
    for (; bytes >= 8; bytes -= 8, t += 8)
        __builtin_memcpy(t, &word, 8);
    for (; bytes > 0; bytes--)
        *t++ = (uint8_t)value;
}

/* The kernel has a return path of its own, in the vDSO, which it takes where none is given. */
#define ARCH_SA_RESTORER 0ul
__attribute__((unused)) static void (*const arch_signal_return)(void) = NULL;

/*
 * Defines, at file level, a function NAME in front of the one of the same kind that the variable
 * REAL points to; FIND returns that where REAL is still NULL. A call whose first argument is NUMBER
 * goes to SPECIAL, one with NUMBER2 to SPECIAL2. What is passed is neither looked at nor written.
 */
#define ARCH_HOOK_FORWARD(name, number, special, number2, special2, real, find)                    \
    __asm__(".text\n.align 2\n.globl " name "\n.type " name ", %function\n" name ":\n"             \
            ".cfi_startproc\n\t"                                                                   \
            "hint #34\n\t" /* bti c */                                                             \
            "cmp x0, #" number "\n\t"                                                              \
            "b.eq " special "\n\t"                                                                 \
            "cmp x0, #" number2 "\n\t"                                                             \
            "b.eq " special2 "\n\t"                                                                \
            "adrp x16, " real "\n\t"                                                               \
            "ldr x16, [x16, #:lo12:" real "]\n\t"                                                  \
            "cbz x16, 1f\n\t"                                                                      \
            "br x16\n"                                                                             \
            "1:\n\t"                                                                               \
            "stp x29, x30, [sp, #-80]!\n\t"                                                        \
            ".cfi_adjust_cfa_offset 80\n\t.cfi_offset 29, -80\n\t.cfi_offset 30, -72\n\t"          \
            "stp x0, x1, [sp, #16]\n\tstp x2, x3, [sp, #32]\n\t"                                   \
            "stp x4, x5, [sp, #48]\n\tstp x6, x7, [sp, #64]\n\t"                                   \
            "bl " find "\n\t"                                                                      \
            "mov x16, x0\n\t"                                                                      \
            "ldp x0, x1, [sp, #16]\n\tldp x2, x3, [sp, #32]\n\t"                                   \
            "ldp x4, x5, [sp, #48]\n\tldp x6, x7, [sp, #64]\n\t"                                   \
            "ldp x29, x30, [sp], #80\n\t"                                                          \
            ".cfi_adjust_cfa_offset -80\n\t.cfi_restore 29\n\t.cfi_restore 30\n\t"                 \
            "br x16\n"                                                                             \
            ".cfi_endproc\n.size " name ", . - " name "\n")

/* What seccomp and ELF call this processor, and its relocations that fill in a word with an
 * address (linux/audit.h, elf.h). */
#define ARCH_AUDIT           AUDIT_ARCH_AARCH64
#define ARCH_ELF_MACHINE     EM_AARCH64
#define ARCH_RELOC_JUMP_SLOT R_AARCH64_JUMP_SLOT
#define ARCH_RELOC_GLOB_DAT  R_AARCH64_GLOB_DAT
#define ARCH_RELOC_IRELATIVE R_AARCH64_IRELATIVE

/* Are there symbols that name nothing, but mark code and data? */
#define ARCH_HAS_MAPPING_SYMBOLS 1

/* The version that the functions of its first glibc have. */
#define ARCH_FIRST_GLIBC "GLIBC_2.17"

/* What a page may have. */
#define ARCH_PAGE_BYTES_LEAST 4096u
#define ARCH_PAGE_BYTES_MOST  65536u

/*
 * Registers in a sample, in ascending order of the kernel's numbers (asm/perf_regs.h: X0..X29, LR,
 * SP, PC).
 */
#define ARCH_PERF_REGISTERS      0x1ffffffffull
#define ARCH_PERF_REGISTER_COUNT 33u
#define ARCH_PERF_INDEX_FP       29u
#define ARCH_PERF_INDEX_LINK     30u
#define ARCH_PERF_INDEX_SP       31u
#define ARCH_PERF_INDEX_IP       32u

/* Index into a sample's registers of DWARF register 0..32 (DWARF for the Arm 64-bit architecture,
 * section 4.1). */
#define ARCH_DWARF_REGISTER_COUNT 33u
static const uint8_t arch_dwarf_to_perf[ARCH_DWARF_REGISTER_COUNT] = {
    0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16,
    17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32,
};

/* The DWARF registers that unwinding goes by. The return address has a register of its own. */
#define ARCH_DWARF_FP     29u
#define ARCH_DWARF_RETURN 30u
#define ARCH_DWARF_SP     31u
#define ARCH_DWARF_IP     32u

/* A call puts the return address into the link register, and nothing on the stack. */
#define ARCH_CALL_PUSH_BYTES 0u

/* Where the frame pointer points, a caller's frame pointer and the return address are. How much of
 * the frame lies above these is not told by them. */
#define ARCH_FRAME_ENDS_AT_RECORD 0

/*
 * A return address without the signature that the processor may have put into its upper bits
 * (pointer authentication). xpaclri is a hint: older processors, which sign none, do nothing.
 */
static inline uint64_t arch_return_address(uint64_t word)
{
    register uint64_t x30 __asm__("x30") = word;
    __asm__("hint #7" : "+r"(x30));
    return x30;
}

/* The return address that is in a register of a frame that has not called anything yet. */
static inline uint64_t arch_link(const uint64_t *registers)
{
    return arch_return_address(registers[ARCH_PERF_INDEX_LINK]);
}

/*
 * Where the kernel saves a sample's registers, in their order there, when it calls a signal
 * handler: bytes above the stack pointer that the handler returns to. There lie a siginfo_t and
 * then, ARCH_SIGNAL_CONTEXT_AT, the ucontext_t (asm/ucontext.h, asm/sigcontext.h).
 */
#define ARCH_SIGNAL_CONTEXT_AT 128u
static const uint16_t arch_signal_register_at[ARCH_PERF_REGISTER_COUNT] = {
    312, 320, 328, 336, 344, 352, 360, 368, 376, 384, 392, 400, 408, 416, 424, 432, 440,
    448, 456, 464, 472, 480, 488, 496, 504, 512, 520, 528, 536, 544, 552, 560, 568,
};

/* libunwind for other processes of this architecture, and the code a signal handler returns to
 * (mov x8, #139; svc #0), as the kernel's vDSO and every libc have it. */
#define ARCH_LIBUNWIND_FILE "libunwind-aarch64.so.8"
#define ARCH_SIGNAL_RETURN_CODE                                                                    \
    {                                                                                              \
        0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4                                             \
    }

static inline uint32_t arch_instruction(const uint8_t *code)
{
    uint32_t word;
    __builtin_memcpy(&word, code, sizeof word);
    return word;
}

/* How many bytes before a return address arch_ends_in_call needs to see. */
#define ARCH_CALL_BYTES 4u

/* Is the instruction before a return address a call: bl, blr, or one of blraa, blraaz, blrab and
 * blrabz, which check a signature? (Arm ARM, C6.2.) */
static inline int arch_ends_in_call(const uint8_t code[ARCH_CALL_BYTES])
{
    uint32_t word = arch_instruction(code);
    return word >> 26 == 0x25 || (word & 0xfffffc1f) == 0xd63f0000 ||
           (word & 0xfefff800) == 0xd63f0800;
}

/* What arch_leaves_by needs to see: code that leaves a function, ARCH_LEAVE_BEFORE_BYTES of it
 * before its instruction. */
#define ARCH_LEAVE_BYTES        12u
#define ARCH_LEAVE_BEFORE_BYTES 4u

/* How a function is about to be left: its saved frame pointer, if it pops one, and then its return
 * address lie at the stack pointer + skip_bytes; the caller's stack pointer is left_bytes above. */
struct arch_leave {
    uint32_t skip_bytes, left_bytes;
    int pops_fp;
};

/*
 * Does the code behind the first instruction do nothing but leave its function: ldp x29, x30, [sp],
 * #n; ret? Or has stp x29, x30, [sp, #-n]! just been done, before mov x29, sp? For code that
 * nothing else tells about. (Arm ARM, C6.2.)
 */
static inline int arch_leaves_by(const uint8_t code[ARCH_LEAVE_BYTES], struct arch_leave *leave)
{
    const uint32_t before = arch_instruction(code), now = arch_instruction(code + 4);
    const uint32_t pushed = before >> 15 & 0x7f, popped = now >> 15 & 0x7f; /* words; 7 bits */
    if ((before & 0xffc07fff) == 0xa9807bfd && now == 0x910003fd && pushed >= 64)
        *leave = (struct arch_leave){0, (128 - pushed) * 8, 1};
    else if ((now & 0xffc07fff) == 0xa8c07bfd && popped < 64 &&
             arch_instruction(code + 8) == 0xd65f03c0)
        *leave = (struct arch_leave){0, popped * 8, 1};
    else
        return 0;
    return 1;
}

/* The longest stub of a procedure linkage table. */
#define ARCH_PLT_STUB_BYTES 24u

/*
 * Is this a stub at VADDR, [bti c] adrp x16, page; ldr x17, [x16, #offset]? Tells which word it
 * jumps through, and returns how long it is. (ELF for the Arm 64-bit architecture, "PLT"; Arm ARM,
 * C6.2: ADRP, LDR.)
 */
static inline unsigned arch_plt_slot(const uint8_t code[ARCH_PLT_STUB_BYTES], uint64_t vaddr,
                                     uint64_t *slot_vaddr)
{
    unsigned at = arch_instruction(code) == 0xd503245f ? 4 : 0;
    uint32_t page = arch_instruction(code + at), load = arch_instruction(code + at + 4);
    if ((page & 0x9f00001f) != 0x90000010 || (load & 0xffc003ff) != 0xf9400211)
        return 0;
    int64_t pages = (int32_t)((page >> 5 & 0x7ffff) << 13) >> 11 | (int32_t)(page >> 29 & 3);
    *slot_vaddr = ((vaddr + at) & ~0xfffull) + (uint64_t)(pages * 4096) + (load >> 10 & 0xfff) * 8;
    return at != 0 ? 24 : 16;
}

/* Room for what libc keeps around the thread pointer: its thread descriptor below, static TLS
 * above. */
#define ARCH_TLS_BELOW_BYTES 8192u
#define ARCH_TLS_ABOVE_BYTES 65536u

/* Makes a zeroed block fit to be a thread pointer's surroundings. Nothing needs to be there: the
 * stack canary and the pointer guard are variables of libc's, the same for all threads. */
static inline void arch_tls_prepare(void *thread_pointer)
{
    (void)thread_pointer;
}

#endif
