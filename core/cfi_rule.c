/*
 * Interprets call frame instructions up to one address. Runs in the helper; works on bytes in
 * memory, allocates nothing. Every instruction and every operation of an expression takes a byte,
 * and none jumps, so that it ends with the bytes.
 */
#include "cfi_rule.h"

#include "arch.h"
#include "cfi_expression.h"

#define REMEMBERED_MAX 8u
#define WORD_BYTES     8

/* Call frame instructions (DWARF 5, table 7.29, and GNU's additions). The upper two bits are the
 * first three's. */
enum instruction {
    ADVANCE = 0x40,
    OFFSET = 0x80,
    RESTORE = 0xc0,
    NOP = 0x00,
    SET_LOC = 0x01,
    ADVANCE_1 = 0x02,
    ADVANCE_2 = 0x03,
    ADVANCE_4 = 0x04,
    OFFSET_EXTENDED = 0x05,
    RESTORE_EXTENDED = 0x06,
    UNDEFINED = 0x07,
    SAME_VALUE = 0x08,
    REGISTER = 0x09,
    REMEMBER = 0x0a,
    RECALL = 0x0b,
    CFA = 0x0c,
    CFA_REGISTER = 0x0d,
    CFA_OFFSET = 0x0e,
    CFA_EXPRESSION = 0x0f,
    EXPRESSION = 0x10,
    OFFSET_EXTENDED_SF = 0x11,
    CFA_SF = 0x12,
    CFA_OFFSET_SF = 0x13,
    VAL_OFFSET = 0x14,
    VAL_OFFSET_SF = 0x15,
    VAL_EXPRESSION = 0x16,
    AARCH64_NEGATE_RA_STATE_WITH_PC = 0x2c, /* as the next, but the signature depends on the PC */
    AARCH64_NEGATE_RA_STATE = 0x2d, /* return addresses are signed, or no more: not asked for */
    GNU_ARGS_SIZE = 0x2e,
    GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

/* How the caller's value of a register is found. */
enum how {
    HOW_UNSAID = 0, /* as the ABI has it: callee-saved registers are the same */
    HOW_SAME,
    HOW_UNDEFINED,
    HOW_AT_CFA,  /* in memory at CFA + value */
    HOW_AT_BASE, /* in memory at register `base` + value */
    HOW_IN_BASE, /* in register `base` */
    HOW_OTHER,   /* in a way that is not expressed */
};

struct saved {
    uint8_t how;
    uint8_t base; /* DWARF register, one of ARCH_DWARF_REGISTER_COUNT */
    int64_t value;
};

/* The registers that unwinding goes by. The first is another than its name says where a caller asks
 * for one. */
enum watched { FRAME_POINTER, STACK_POINTER, RETURN_ADDRESS, WATCHED };

struct row {
    struct cfi_value cfa;
    struct saved saved[WATCHED];
};

struct machine {
    struct cfi_reader reader;
    const struct cfi_cie *cie;
    uint64_t followed; /* the DWARF register that FRAME_POINTER stands for */
    uint64_t vaddr;    /* what is looked for */
    uint64_t at;       /* what the row holds from */
    uint64_t next_ip;  /* for expressions: the instruction pointer itself */
    struct row row;
    struct row initial; /* as the CIE left it, for RESTORE */
    struct row remembered[REMEMBERED_MAX];
    unsigned remembered_count;
};

static struct saved *saved_of(const struct machine *machine, struct row *row,
                              uint64_t dwarf_register)
{
    if (dwarf_register == machine->followed)
        return &row->saved[FRAME_POINTER];
    switch (dwarf_register) {
    case ARCH_DWARF_SP:
        return &row->saved[STACK_POINTER];
    case ARCH_DWARF_RETURN:
        return &row->saved[RETURN_ADDRESS];
    default:
        return NULL;
    }
}

static void save(struct machine *machine, uint64_t dwarf_register, enum how how, int64_t value)
{
    struct saved *saved = saved_of(machine, &machine->row, dwarf_register);
    if (saved != NULL)
        *saved = (struct saved){(uint8_t)how, 0, value};
}

static void save_in(struct machine *machine, uint64_t dwarf_register, uint64_t other)
{
    struct saved *saved = saved_of(machine, &machine->row, dwarf_register);
    if (saved != NULL && other < ARCH_DWARF_REGISTER_COUNT)
        *saved = (struct saved){HOW_IN_BASE, (uint8_t)other, 0};
    else if (saved != NULL)
        *saved = (struct saved){.how = HOW_OTHER};
}

static void restore(struct machine *machine, uint64_t dwarf_register)
{
    struct saved *saved = saved_of(machine, &machine->row, dwarf_register);
    if (saved != NULL)
        *saved = *saved_of(machine, &machine->initial, dwarf_register);
}

/* VALUE * FACTOR, or something that no rule expresses. */
static int64_t scaled(struct machine *machine, int64_t value, int64_t factor)
{
    int64_t product;
    if (__builtin_mul_overflow(value, factor, &product)) {
        machine->reader.bad = true;
        return 0;
    }
    return product;
}

static int64_t data_scaled(struct machine *machine, int64_t value)
{
    return scaled(machine, value, machine->cie->data_alignment);
}

static int64_t read_unsigned(struct machine *machine)
{
    return (int64_t)cfi_read_uleb(&machine->reader);
}

/* False: the next row begins behind the address that is looked for. */
static bool advance(struct machine *machine, uint64_t delta)
{
    uint64_t bytes, next;
    if (__builtin_mul_overflow(delta, machine->cie->code_alignment, &bytes) ||
        __builtin_add_overflow(machine->at, bytes, &next) || next > machine->vaddr)
        return false;
    machine->at = next;
    return true;
}

static bool set_location(struct machine *machine)
{
    uint64_t next = cfi_read_pointer(&machine->reader, machine->cie->fde_encoding, 0);
    if (machine->reader.bad || next > machine->vaddr)
        return false;
    machine->at = next;
    return true;
}

static struct cfi_value read_expression(struct machine *machine, const struct cfi_value *first)
{
    struct cfi_reader *reader = &machine->reader;
    uint64_t bytes = cfi_read_uleb(reader);
    if (reader->bad || bytes > reader->end - reader->at) {
        reader->bad = true;
        return (struct cfi_value){.kind = CFI_VALUE_OTHER};
    }
    struct cfi_reader inside = {reader->from, reader->at, reader->at + (size_t)bytes, false};
    reader->at = inside.end;
    return cfi_expression_read(&inside, machine->next_ip, first);
}

/* The address of the saved register, which starts with the CFA on the stack. */
static void save_expression(struct machine *machine)
{
    const struct cfi_value cfa = {.kind = CFI_VALUE_CFA};
    struct saved *saved = saved_of(machine, &machine->row, cfi_read_uleb(&machine->reader));
    struct cfi_value value = read_expression(machine, &cfa);
    if (saved == NULL)
        return;
    *saved = (struct saved){.how = HOW_OTHER};
    if (value.kind == CFI_VALUE_REGISTER)
        *saved = (struct saved){HOW_AT_BASE, value.base, value.offset};
    else if (value.kind == CFI_VALUE_CFA)
        *saved = (struct saved){HOW_AT_CFA, 0, value.offset};
}

static void define_cfa(struct machine *machine, uint64_t base, int64_t offset)
{
    machine->row.cfa = (struct cfi_value){.kind = CFI_VALUE_OTHER};
    if (base < ARCH_DWARF_REGISTER_COUNT)
        machine->row.cfa = (struct cfi_value){CFI_VALUE_REGISTER, (uint8_t)base, offset, 0};
}

static void change_cfa(struct machine *machine, const uint64_t *base, const int64_t *offset)
{
    struct cfi_value *cfa = &machine->row.cfa;
    if (cfa->kind != CFI_VALUE_REGISTER) /* there is nothing that could be changed */
        machine->reader.bad = true;
    else
        define_cfa(machine, base != NULL ? *base : cfa->base,
                   offset != NULL ? *offset : cfa->offset);
}

/* Instructions about the CFA; false: it is none. */
static bool run_cfa(struct machine *machine, uint8_t instruction)
{
    uint64_t base;
    int64_t offset;
    switch (instruction) {
    case CFA:
        base = cfi_read_uleb(&machine->reader);
        define_cfa(machine, base, read_unsigned(machine));
        return true;
    case CFA_SF:
        base = cfi_read_uleb(&machine->reader);
        define_cfa(machine, base, data_scaled(machine, cfi_read_sleb(&machine->reader)));
        return true;
    case CFA_REGISTER:
        base = cfi_read_uleb(&machine->reader);
        change_cfa(machine, &base, NULL);
        return true;
    case CFA_OFFSET:
        offset = read_unsigned(machine);
        change_cfa(machine, NULL, &offset);
        return true;
    case CFA_OFFSET_SF:
        offset = data_scaled(machine, cfi_read_sleb(&machine->reader));
        change_cfa(machine, NULL, &offset);
        return true;
    case CFA_EXPRESSION:
        machine->row.cfa = read_expression(machine, NULL);
        return true;
    default:
        return false;
    }
}

/* Instructions about one register, which they name first; false: it is none. */
static bool run_register(struct machine *machine, uint8_t instruction)
{
    struct cfi_reader *reader = &machine->reader;
    if (instruction == EXPRESSION) {
        save_expression(machine);
        return true;
    }
    struct cfi_reader before = *reader;
    uint64_t name = cfi_read_uleb(reader);
    switch (instruction) {
    case OFFSET_EXTENDED:
        save(machine, name, HOW_AT_CFA, data_scaled(machine, read_unsigned(machine)));
        return true;
    case OFFSET_EXTENDED_SF:
        save(machine, name, HOW_AT_CFA, data_scaled(machine, cfi_read_sleb(reader)));
        return true;
    case GNU_NEGATIVE_OFFSET_EXTENDED:
        save(machine, name, HOW_AT_CFA,
             scaled(machine, data_scaled(machine, read_unsigned(machine)), -1));
        return true;
    case RESTORE_EXTENDED:
        restore(machine, name);
        return true;
    case UNDEFINED:
        save(machine, name, HOW_UNDEFINED, 0);
        return true;
    case SAME_VALUE:
        save(machine, name, HOW_SAME, 0);
        return true;
    case REGISTER:
        save_in(machine, name, cfi_read_uleb(reader));
        return true;
    case VAL_OFFSET:
    case VAL_OFFSET_SF: /* a second LEB128 number, signed or not */
        cfi_read_uleb(reader);
        save(machine, name, HOW_OTHER, 0);
        return true;
    case VAL_EXPRESSION:
        read_expression(machine, NULL);
        save(machine, name, HOW_OTHER, 0);
        return true;
    default:
        *reader = before;
        return false;
    }
}

static void remember(struct machine *machine)
{
    if (machine->remembered_count == REMEMBERED_MAX)
        machine->reader.bad = true;
    else
        machine->remembered[machine->remembered_count++] = machine->row;
}

static void recall(struct machine *machine)
{
    if (machine->remembered_count == 0)
        machine->reader.bad = true;
    else
        machine->row = machine->remembered[--machine->remembered_count];
}

/* Instructions that go on to another row; *GOES_ON is false behind the one that is looked for.
 * False: it is none. */
static bool run_advance(struct machine *machine, uint8_t instruction, bool *goes_on)
{
    switch (instruction) {
    case ADVANCE_1:
    case ADVANCE_2:
    case ADVANCE_4: {
        unsigned bytes = instruction == ADVANCE_1 ? 1 : instruction == ADVANCE_2 ? 2 : 4;
        *goes_on = advance(machine, cfi_read_uint(&machine->reader, bytes));
        return true;
    }
    case SET_LOC:
        *goes_on = set_location(machine);
        return true;
    default:
        return false;
    }
}

/* One instruction; false: the row is complete. */
static bool run_one(struct machine *machine)
{
    uint8_t instruction = (uint8_t)cfi_read_uint(&machine->reader, 1);
    uint8_t low = instruction & 0x3f;
    bool goes_on = true;
    switch (instruction & 0xc0) {
    case ADVANCE:
        return advance(machine, low);
    case OFFSET:
        save(machine, low, HOW_AT_CFA, data_scaled(machine, read_unsigned(machine)));
        return true;
    case RESTORE:
        restore(machine, low);
        return true;
    }
    if (instruction == NOP || instruction == AARCH64_NEGATE_RA_STATE ||
        instruction == AARCH64_NEGATE_RA_STATE_WITH_PC)
        return true;
    if (instruction == REMEMBER)
        remember(machine);
    else if (instruction == RECALL)
        recall(machine);
    else if (instruction == GNU_ARGS_SIZE)
        cfi_read_uleb(&machine->reader);
    else if (!run_advance(machine, instruction, &goes_on) && !run_cfa(machine, instruction) &&
             !run_register(machine, instruction))
        machine->reader.bad = true;
    return goes_on;
}

static bool run(struct machine *machine, const struct cfi_bytes *from, size_t start, size_t end)
{
    if (start > end || end > from->count)
        return false;
    machine->reader = (struct cfi_reader){from, start, end, false};
    while (!machine->reader.bad && machine->reader.at < machine->reader.end && run_one(machine)) {
    }
    return !machine->reader.bad;
}

/* OFFSET in words, if it has that many and FITS bits hold it. */
static bool words_of(int64_t offset, unsigned bits, int64_t *words)
{
    *words = offset / WORD_BYTES;
    return offset % WORD_BYTES == 0 && *words >= -(1 << (bits - 1)) && *words < 1 << (bits - 1);
}

static bool put_fp(struct cfi_rule *rule, const struct saved *saved)
{
    int64_t words = 0;
    switch (saved->how) {
    case HOW_UNSAID:
    case HOW_SAME:
        rule->fp = CFI_FP_SAME;
        break;
    case HOW_UNDEFINED:
        rule->fp = CFI_FP_LOST;
        break;
    case HOW_AT_CFA:
        rule->fp = CFI_FP_AT_CFA;
        break;
    case HOW_AT_BASE:
        if (saved->base != ARCH_DWARF_FP)
            return false;
        rule->fp = CFI_FP_AT_FP;
        break;
    default:
        return false;
    }
    if (!words_of(saved->value, 16, &words))
        return false;
    rule->fp_words = (int16_t)words;
    return true;
}

static bool put_cfa(struct cfi_rule *rule, const struct row *row)
{
    const struct cfi_value *cfa = &row->cfa;
    int64_t words = 0;
    if (cfa->offset < INT32_MIN || cfa->offset > INT32_MAX ||
        row->saved[STACK_POINTER].how > HOW_SAME)
        return false;
    if (cfa->kind == CFI_VALUE_REGISTER)
        rule->kind = CFI_RULE_REGISTER;
    else if (cfa->kind == CFI_VALUE_MEMORY && words_of(cfa->added, 6, &words))
        rule->kind = CFI_RULE_MEMORY;
    else
        return false;
    rule->offset = (int32_t)cfa->offset;
    rule->base = arch_dwarf_to_perf[cfa->base];
    rule->words = (int16_t)words;
    return true;
}

/* The return address is too far from the CFA for `words`: then as the word behind the saved frame
 * pointer, or in the place of that where none is saved. */
static bool put_record(struct cfi_rule *rule, int64_t returns_at)
{
    int64_t words;
    if (!words_of(returns_at - WORD_BYTES, 16, &words) ||
        (rule->fp == CFI_FP_AT_CFA ? rule->fp_words != words : rule->fp != CFI_FP_SAME))
        return false;
    rule->kind = CFI_RULE_RECORD;
    rule->fp_words = (int16_t)words;
    return true;
}

/* Comes last. */
static bool put_return(struct cfi_rule *rule, const struct saved *returns)
{
    int64_t words;
    if (rule->kind == CFI_RULE_MEMORY)
        return returns->how == HOW_AT_CFA && returns->value == -WORD_BYTES;
    if (returns->how <= HOW_SAME) {
        rule->kind = CFI_RULE_LINK;
        return ARCH_CALL_PUSH_BYTES == 0;
    }
    if (returns->how != HOW_AT_CFA)
        return false;
    if (!words_of(returns->value, 6, &words))
        return put_record(rule, returns->value);
    rule->words = (int16_t)words;
    return true;
}

/* Is that register said to be at the place where the kernel puts it in a signal's context? */
static bool in_context(const struct saved *saved, unsigned perf_index)
{
    return saved->how == HOW_AT_BASE && saved->base == ARCH_DWARF_SP &&
           saved->value == arch_signal_register_at[perf_index];
}

static bool is_signal(const struct row *row)
{
    const struct cfi_value *cfa = &row->cfa;
    return cfa->kind == CFI_VALUE_MEMORY && cfa->base == ARCH_DWARF_SP && cfa->added == 0 &&
           cfa->offset == arch_signal_register_at[ARCH_PERF_INDEX_SP] &&
           in_context(&row->saved[RETURN_ADDRESS], ARCH_PERF_INDEX_IP) &&
           in_context(&row->saved[FRAME_POINTER], ARCH_PERF_INDEX_FP);
}

/* What can be said of a row that is to be handed over: libc's vfork keeps its return address in a
 * register while parent and child share the stack. */
static struct cfi_rule hand_over(const struct row *row)
{
    const struct cfi_value *cfa = &row->cfa;
    const struct saved *returns = &row->saved[RETURN_ADDRESS];
    struct cfi_rule rule = {.kind = CFI_RULE_HAND_OVER};
    if (returns->how == HOW_IN_BASE && row->saved[FRAME_POINTER].how <= HOW_SAME &&
        row->saved[STACK_POINTER].how <= HOW_SAME && cfa->kind == CFI_VALUE_REGISTER &&
        cfa->base == ARCH_DWARF_SP && cfa->offset >= 0 && cfa->offset <= INT32_MAX) {
        rule.offset = (int32_t)cfa->offset;
        rule.base = arch_dwarf_to_perf[returns->base];
        rule.words = 1;
    }
    return rule;
}

static struct cfi_rule rule_of(const struct row *row, bool signal_frame)
{
    struct cfi_rule rule = {.kind = CFI_RULE_HAND_OVER};
    if (row->saved[RETURN_ADDRESS].how == HOW_UNDEFINED)
        rule.kind = CFI_RULE_ROOT;
    else if (signal_frame)
        rule.kind = is_signal(row) ? CFI_RULE_SIGNAL : CFI_RULE_HAND_OVER;
    else if (!put_cfa(&rule, row) || !put_fp(&rule, &row->saved[FRAME_POINTER]) ||
             !put_return(&rule, &row->saved[RETURN_ADDRESS]))
        rule = hand_over(row);
    return rule;
}

/* The DWARF register of one in a sample. */
static uint64_t dwarf_register_of(unsigned perf_index)
{
    uint64_t found = 0;
    while (found < ARCH_DWARF_REGISTER_COUNT - 1 && arch_dwarf_to_perf[found] != perf_index)
        found++;
    return found;
}

struct cfi_rule cfi_rule_read(const struct cfi_rows *rows, uint64_t vaddr, bool is_call)
{
    struct machine machine = {.cie = &rows->cie, .vaddr = vaddr, .at = rows->fde.start_vaddr};
    machine.followed = rows->followed == 0 ? ARCH_DWARF_FP : dwarf_register_of(rows->followed);
    machine.next_ip = vaddr + is_call;
    machine.row.cfa.kind = CFI_VALUE_OTHER;
    if (rows->cie.return_register != ARCH_DWARF_RETURN ||
        !run(&machine, rows->cie_bytes, rows->cie.instructions, rows->cie.end))
        return (struct cfi_rule){.kind = CFI_RULE_HAND_OVER};
    machine.initial = machine.row;
    if (!run(&machine, rows->fde_bytes, rows->fde.instructions, rows->fde.end))
        return (struct cfi_rule){.kind = CFI_RULE_HAND_OVER};
    return rule_of(&machine.row, rows->cie.signal_frame);
}
