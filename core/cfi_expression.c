/* Follows DWARF expressions. Runs in the helper; works on bytes in memory, allocates nothing, and
 * ends with the bytes: no jump is followed. */
#include "cfi_expression.h"

#include <stdbool.h>

#include "arch.h"

#define DEPTH_MAX 8u

/* Load biases are multiples of this, so these bits are the same as linked and as loaded. */
#define PAGE_BYTES 4096

enum operation {
    DEREF = 0x06,
    CONST_1U = 0x08,
    CONST_1S = 0x09,
    CONST_2U = 0x0a,
    CONST_2S = 0x0b,
    AND = 0x1a,
    PLUS = 0x22,
    PLUS_UCONST = 0x23,
    SHL = 0x24,
    GE = 0x2a,
    LIT_0 = 0x30,
    LIT_31 = 0x4f,
    BREG_0 = 0x70,
    BREG_31 = 0x8f,
};

struct stack {
    struct cfi_value values[DEPTH_MAX];
    unsigned depth;
    bool bad;
};

static const struct cfi_value other = {.kind = CFI_VALUE_OTHER};

static void push(struct stack *stack, struct cfi_value value)
{
    if (stack->depth == DEPTH_MAX)
        stack->bad = true;
    else
        stack->values[stack->depth++] = value;
}

static struct cfi_value pop(struct stack *stack)
{
    if (stack->depth == 0) {
        stack->bad = true;
        return other;
    }
    return stack->values[--stack->depth];
}

static struct cfi_value number(int64_t value)
{
    return (struct cfi_value){.kind = CFI_VALUE_NUMBER, .offset = value};
}

static struct cfi_value sum(struct cfi_value value, int64_t number)
{
    int64_t *to = value.kind == CFI_VALUE_MEMORY ? &value.added : &value.offset;
    return __builtin_add_overflow(*to, number, to) ? other : value;
}

static struct cfi_value plus(struct cfi_value one, struct cfi_value two)
{
    if (two.kind == CFI_VALUE_NUMBER)
        return sum(one, two.offset);
    return one.kind == CFI_VALUE_NUMBER ? sum(two, one.offset) : other;
}

static struct cfi_value deref(struct cfi_value value)
{
    if (value.kind != CFI_VALUE_REGISTER)
        return other;
    value.kind = CFI_VALUE_MEMORY;
    value.added = 0;
    return value;
}

/* The only thing that is asked of the instruction pointer: which slot of a PLT it is in. */
static struct cfi_value masked(struct cfi_value value, struct cfi_value mask, uint64_t ip)
{
    if (mask.kind != CFI_VALUE_NUMBER)
        return other;
    if (value.kind == CFI_VALUE_NUMBER)
        return number(value.offset & mask.offset);
    if (value.kind != CFI_VALUE_REGISTER || value.base != ARCH_DWARF_IP || mask.offset < 0 ||
        mask.offset >= PAGE_BYTES)
        return other;
    return number((int64_t)(ip + (uint64_t)value.offset) & mask.offset);
}

static struct cfi_value of_two(uint8_t operation, struct cfi_value under, struct cfi_value top,
                               uint64_t ip)
{
    if (operation == PLUS)
        return plus(under, top);
    if (operation == AND)
        return masked(under, top, ip);
    if (under.kind != CFI_VALUE_NUMBER || top.kind != CFI_VALUE_NUMBER)
        return other;
    if (operation == GE)
        return number(under.offset >= top.offset);
    return top.offset >= 0 && top.offset < 64
               ? number((int64_t)((uint64_t)under.offset << top.offset))
               : other;
}

static struct cfi_value constant(struct cfi_reader *reader, uint8_t operation)
{
    switch (operation) {
    case CONST_1U:
        return number((int64_t)cfi_read_uint(reader, 1));
    case CONST_1S:
        return number((int8_t)cfi_read_uint(reader, 1));
    case CONST_2U:
        return number((int64_t)cfi_read_uint(reader, 2));
    case CONST_2S:
        return number((int16_t)cfi_read_uint(reader, 2));
    default:
        return other;
    }
}

static void run_one(struct stack *stack, struct cfi_reader *reader, uint64_t ip)
{
    uint8_t operation = (uint8_t)cfi_read_uint(reader, 1);
    struct cfi_value value;
    if (operation >= LIT_0 && operation <= LIT_31) {
        value = number(operation - LIT_0);
    } else if (operation >= BREG_0 && operation <= BREG_31) {
        int64_t offset = cfi_read_sleb(reader);
        uint8_t base = (uint8_t)(operation - BREG_0);
        value = base < ARCH_DWARF_REGISTER_COUNT
                    ? (struct cfi_value){CFI_VALUE_REGISTER, base, offset, 0}
                    : other;
    } else if (operation == DEREF) {
        value = deref(pop(stack));
    } else if (operation == PLUS_UCONST) {
        uint64_t added = cfi_read_uleb(reader);
        value = added <= INT64_MAX ? sum(pop(stack), (int64_t)added) : other;
    } else if (operation == PLUS || operation == AND || operation == GE || operation == SHL) {
        struct cfi_value top = pop(stack);
        value = of_two(operation, pop(stack), top, ip);
    } else {
        value = constant(reader, operation);
    }
    stack->bad |= value.kind == CFI_VALUE_OTHER;
    push(stack, value);
}

struct cfi_value cfi_expression_read(struct cfi_reader *reader, uint64_t ip,
                                     const struct cfi_value *first)
{
    struct stack stack = {.depth = 0};
    if (first != NULL)
        push(&stack, *first);
    while (reader->at < reader->end && !reader->bad && !stack.bad)
        run_one(&stack, reader, ip);
    if (reader->bad || stack.bad || stack.depth == 0)
        return other;
    return stack.values[stack.depth - 1];
}
