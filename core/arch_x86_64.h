/* x86-64: system calls, the helper's start, registers of a sample, layout of the thread block. */
#ifndef SELFSAMPLE_CORE_ARCH_X86_64_H
#define SELFSAMPLE_CORE_ARCH_X86_64_H

#include <stddef.h>
#include <stdint.h>

static inline long arch_syscall6(long number, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}

/*
 * clone(2) with a stack of its own for the child, which calls ENTRY(ARGUMENT) and must not return.
 * STACK_TOP is aligned to 16. Returns the child's pid, or -errno.
 */
static inline long arch_clone(unsigned long flags, void *stack_top, int *parent_tid, int *child_tid,
                              void *tls, void (*entry)(void *), void *argument)
{
    register long r10 __asm__("r10") = (long)child_tid;
    register long r8 __asm__("r8") = (long)tls;
    register void *child_entry __asm__("r12") = (void *)entry;
    register void *child_argument __asm__("r13") = argument;
    long result;
    __asm__ volatile("syscall\n\t"
                     "testq %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xorl %%ebp, %%ebp\n\t"
                     "movq %%r13, %%rdi\n\t"
                     "callq *%%r12\n\t"
                     "ud2\n"
                     "1:"
                     : "=a"(result)
                     : "a"(56L), "D"(flags), "S"(stack_top), "d"(parent_tid), "r"(r10), "r"(r8),
                       "r"(child_entry), "r"(child_argument)
                     : "rcx", "r11", "memory");
    return result;
}

/* Copies upwards. Processors do this at full speed by themselves (ERMS). */
static inline void arch_copy(void *to, const void *from, size_t bytes)
{
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
}

static inline void arch_fill(void *to, int value, size_t bytes)
{
    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
}

/* The return path of a signal handler, for rt_sigaction without libc (SA_RESTORER). */
__attribute__((naked, unused)) static void arch_signal_return(void)
{
    __asm__ volatile("movl $15, %eax\n\tsyscall");
}

#define ARCH_SA_RESTORER 0x04000000ul

/*
 * Defines, at file level, a function NAME in front of the one of the same kind that the variable
 * REAL points to; FIND returns that where REAL is still NULL. A call whose first argument is NUMBER
 * goes to SPECIAL, one with NUMBER2 to SPECIAL2. What is passed is neither looked at nor written:
 * with fewer than seven arguments, the stack above the return address is the caller's, and other
 * threads may be at work on it.
 */
#define ARCH_HOOK_FORWARD(name, number, special, number2, special2, real, find)                    \
    __asm__(".text\n.globl " name "\n.type " name ", @function\n" name ":\n"                       \
            ".cfi_startproc\n\t"                                                                   \
            "cmpq $" number ", %rdi\n\t"                                                           \
            "je " special "\n\t"                                                                   \
            "cmpq $" number2 ", %rdi\n\t"                                                          \
            "je " special2 "\n\t"                                                                  \
            "movq " real "(%rip), %rax\n\t"                                                        \
            "testq %rax, %rax\n\t"                                                                 \
            "je 1f\n\t"                                                                            \
            "jmpq *%rax\n"                                                                         \
            "1:\n\t"                                                                               \
            "pushq %rdi\n\tpushq %rsi\n\tpushq %rdx\n\tpushq %rcx\n\tpushq %r8\n\tpushq %r9\n\t"   \
            "subq $8, %rsp\n\t.cfi_adjust_cfa_offset 56\n\t"                                       \
            "callq " find "\n\t"                                                                   \
            "addq $8, %rsp\n\tpopq %r9\n\tpopq %r8\n\tpopq %rcx\n\tpopq %rdx\n\tpopq %rsi\n\t"     \
            "popq %rdi\n\t.cfi_adjust_cfa_offset -56\n\t"                                          \
            "jmpq *%rax\n"                                                                         \
            ".cfi_endproc\n.size " name ", . - " name "\n")

/* What seccomp and ELF call this processor, and its relocations that fill in a word with an
 * address (linux/audit.h, elf.h). */
#define ARCH_AUDIT           AUDIT_ARCH_X86_64
#define ARCH_ELF_MACHINE     EM_X86_64
#define ARCH_RELOC_JUMP_SLOT R_X86_64_JUMP_SLOT
#define ARCH_RELOC_GLOB_DAT  R_X86_64_GLOB_DAT
#define ARCH_RELOC_IRELATIVE R_X86_64_IRELATIVE

/* Are there symbols that name nothing, but mark code and data? */
#define ARCH_HAS_MAPPING_SYMBOLS 0

/* The version that the functions of its first glibc have. */
#define ARCH_FIRST_GLIBC "GLIBC_2.2.5"

/* What a page may have. */
#define ARCH_PAGE_BYTES_LEAST 4096u
#define ARCH_PAGE_BYTES_MOST  4096u

/*
 * Registers in a sample: all general ones and the instruction pointer, in ascending order of the
 * kernel's numbers (asm/perf_regs.h: AX BX CX DX SI DI BP SP IP, R8..R15).
 */
#define ARCH_PERF_REGISTERS      0xff01ffull
#define ARCH_PERF_REGISTER_COUNT 17u
#define ARCH_PERF_INDEX_FP       6u
#define ARCH_PERF_INDEX_SP       7u
#define ARCH_PERF_INDEX_IP       8u

/* Index into a sample's registers of DWARF register 0..16 (x86-64 psABI, figure 3.36). */
#define ARCH_DWARF_REGISTER_COUNT 17u
static const uint8_t arch_dwarf_to_perf[ARCH_DWARF_REGISTER_COUNT] = {
    0, 3, 2, 1, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14, 15, 16, 8,
};

/* The DWARF registers that unwinding goes by. The return address is said to be the caller's
 * instruction pointer. */
#define ARCH_DWARF_FP     6u
#define ARCH_DWARF_SP     7u
#define ARCH_DWARF_IP     16u
#define ARCH_DWARF_RETURN ARCH_DWARF_IP

/* A call puts the return address on the stack. */
#define ARCH_CALL_PUSH_BYTES 8u

/* Where the frame pointer points, a caller's frame pointer and the return address are; above these
 * is the caller's stack pointer. */
#define ARCH_FRAME_ENDS_AT_RECORD 1

/* A return address, of a word that is one. */
static inline uint64_t arch_return_address(uint64_t word)
{
    return word;
}

/* The return address that is in a register of a frame that has not called anything yet: there is no
 * such register. */
static inline uint64_t arch_link(const uint64_t *registers)
{
    (void)registers;
    return 0;
}

/*
 * Where the kernel saves a sample's registers, in their order there, when it calls a signal
 * handler: bytes above the stack pointer that the handler returns to. What lies there, from
 * ARCH_SIGNAL_CONTEXT_AT on, is the ucontext_t (asm/ucontext.h, asm/sigcontext.h).
 */
#define ARCH_SIGNAL_CONTEXT_AT 0u
static const uint16_t arch_signal_register_at[ARCH_PERF_REGISTER_COUNT] = {
    144, 128, 152, 136, 112, 104, 120, 160, 168, 40, 48, 56, 64, 72, 80, 88, 96,
};

/* libunwind for other processes of this architecture, and the code a signal handler returns to
 * (mov $15, %rax; syscall), as every libc has it. */
#define ARCH_LIBUNWIND_FILE "libunwind-x86_64.so.8"
#define ARCH_SIGNAL_RETURN_CODE                                                                    \
    {                                                                                              \
        0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, 0x0f, 0x05                                       \
    }

/* How many bytes before a return address arch_ends_in_call needs to see. */
#define ARCH_CALL_BYTES 7u

/*
 * Do the ARCH_CALL_BYTES before a return address end in a call instruction? call rel32 is e8 and 4
 * bytes; call r/m is ff with 2 in the middle field of its next byte, whose mode and base tell the
 * length (Intel SDM vol. 2, 2.1 and CALL).
 */
static inline int arch_ends_in_call(const uint8_t code[ARCH_CALL_BYTES])
{
    if (code[2] == 0xe8)
        return 1;
    for (unsigned length = 2; length <= 7; length++) {
        const uint8_t *at = code + ARCH_CALL_BYTES - length;
        unsigned mode = at[1] >> 6, base = at[1] & 7;
        if (length == 5 || at[0] != 0xff || (at[1] >> 3 & 7) != 2)
            continue;
        unsigned bytes = 2 + (mode != 3 && base == 4);
        bytes += mode == 1 ? 1 : 0;
        bytes += mode == 2 || (mode == 0 && base == 5) ||
                         (mode == 0 && base == 4 && length == 7 && (at[2] & 7) == 5)
                     ? 4
                     : 0;
        if (bytes == length)
            return 1;
    }
    return 0;
}

/* What arch_leaves_by needs to see: code that leaves a function, ARCH_LEAVE_BEFORE_BYTES of it
 * before its instruction. */
#define ARCH_LEAVE_BYTES        16u
#define ARCH_LEAVE_BEFORE_BYTES 1u

/* How a function is about to be left: its saved frame pointer, if it pops one, and then its return
 * address lie at the stack pointer + skip_bytes; the caller's stack pointer is left_bytes above. */
struct arch_leave {
    uint32_t skip_bytes, left_bytes;
    int pops_fp;
};

/*
 * Does the code behind the first byte do nothing but leave its function: [add $n, %rsp] [pop %rbp]
 * ret? Or has the push of the frame pointer just been done, before mov %rsp, %rbp? For code that
 * nothing else tells about. (Intel SDM vol. 2, ADD, POP, RET, MOV.)
 */
static inline int arch_leaves_by(const uint8_t code[ARCH_LEAVE_BYTES], struct arch_leave *leave)
{
    const uint8_t *at = code + ARCH_LEAVE_BEFORE_BYTES;
    *leave = (struct arch_leave){0, 8, 0};
    if (code[0] == 0x55 && at[0] == 0x48 &&
        ((at[1] == 0x89 && at[2] == 0xe5) || (at[1] == 0x8b && at[2] == 0xec))) {
        *leave = (struct arch_leave){0, 16, 1};
        return 1;
    }
    if (at[0] == 0x48 && at[1] == 0x83 && at[2] == 0xc4 && at[3] < 0x80) {
        leave->skip_bytes = at[3];
        at += 4;
    } else if (at[0] == 0x48 && at[1] == 0x81 && at[2] == 0xc4 && at[6] == 0) {
        leave->skip_bytes = at[3] | (uint32_t)at[4] << 8 | (uint32_t)at[5] << 16;
        at += 7;
    }
    if (at[0] == 0x5d) {
        leave->pops_fp = 1;
        at++;
    }
    leave->left_bytes = leave->skip_bytes + (leave->pops_fp ? 16 : 8);
    return at[0] == 0xc3 || at[0] == 0xc2 || (at[0] == 0xf3 && at[1] == 0xc3);
}

/* The longest stub of a procedure linkage table. */
#define ARCH_PLT_STUB_BYTES 16u

/*
 * Is this a stub at VADDR, [endbr64] [mov $index, %r11d] [bnd] jmp *displacement(%rip)? Tells which
 * word it jumps through. (x86-64 psABI, 5.2 and "x86-64 PLT with IBT"; the mov is mold's.)
 */
static inline unsigned arch_plt_slot(const uint8_t code[ARCH_PLT_STUB_BYTES], uint64_t vaddr,
                                     uint64_t *slot_vaddr)
{
    unsigned at = 0;
    if (code[0] == 0xf3 && code[1] == 0x0f && code[2] == 0x1e && code[3] == 0xfa)
        at += 4;
    if (code[at] == 0x41 && code[at + 1] == 0xbb)
        at += 6;
    if (at < 10 && code[at] == 0xf2)
        at++;
    if (code[at] != 0xff || code[at + 1] != 0x25)
        return 0;
    int32_t displacement;
    __builtin_memcpy(&displacement, code + at + 2, sizeof displacement);
    *slot_vaddr = vaddr + at + 6 + (uint64_t)(int64_t)displacement;
    return 16;
}

/* Room for what libc keeps around the thread pointer: static TLS below, its thread descriptor
 * above. */
#define ARCH_TLS_BELOW_BYTES 65536u
#define ARCH_TLS_ABOVE_BYTES 8192u

/*
 * Makes a zeroed block fit to be a thread pointer's surroundings: self pointers (glibc's tcbhead_t:
 * tcb at 0, self at 16) and the two secrets that compiled code reads (stack canary at 0x28, pointer
 * guard at 0x30), taken from the calling thread.
 */
static inline void arch_tls_prepare(void *thread_pointer)
{
    uint64_t *block = thread_pointer;
    uint64_t canary, guard;
    __asm__("movq %%fs:0x28, %0" : "=r"(canary));
    __asm__("movq %%fs:0x30, %0" : "=r"(guard));
    block[0] = (uint64_t)(uintptr_t)thread_pointer;
    block[2] = (uint64_t)(uintptr_t)thread_pointer;
    block[5] = canary;
    block[6] = guard;
}

#endif
