/*
 * Walks a stack by unwind rules. Runs in the helper; nothing is read but the sample's stack and,
 * for rules that are not in the cache, code and unwind tables. Frames lie one above the other and
 * their number is limited, so it ends.
 */
#include "unwind.h"

#include "arch.h"
#include "module_rules.h"

#define WORD_BYTES 8u

/* For one register so many callees are gone through again, and in one stack so often. */
#define RECOVERED_FRAMES_MAX 64u
#define RECOVERIES_MAX       4u

struct walk {
    struct unwinder *unwinder;
    unsigned recoveries; /* that were tried */
    struct unwind_place place;
    bool is_return;            /* place.ip is returned to; else it was interrupted there */
    const uint64_t *registers; /* all of the frame; NULL: only those in `place` are known */
    uint64_t context[ARCH_PERF_REGISTER_COUNT]; /* what `registers` points at behind a signal */
};

enum step {
    STEP_DONE,
    STEP_ROOT,
    STEP_KNOWN,      /* its callers are known */
    STEP_UNREADABLE, /* its stack can't be read */
    STEP_NO_RULE,
    STEP_HAND_OVER,
};

/* A word of the stack, as a rule in the copy. */
static inline bool word_read(struct unwinder *unwinder, uint64_t address, uint64_t *word)
{
    const struct unwind_sample *sample = &unwinder->sample;
    uint64_t offset = address - sample->registers[ARCH_PERF_INDEX_SP];
    if (sample->stack_bytes < sizeof *word || offset > sample->stack_bytes - sizeof *word)
        return unwind_read_stack(unwinder, address, word, sizeof *word);
    __builtin_memcpy(word, sample->stack + offset, sizeof *word);
    return true;
}

/* The rule of the frame, from the cache or read now. */
static struct cfi_rule rule_find(const struct walk *walk)
{
    struct unwinder *unwinder = walk->unwinder;
    uint64_t key = rule_cache_key(walk->place.ip, walk->is_return);
    const struct cfi_rule *kept = rule_cache_find(&unwinder->rules, key);
    struct cfi_rule rule;
    if (kept != NULL)
        return *kept;
    if (module_rule_find(unwinder->modules, walk->place.ip, walk->is_return, &rule))
        rule_cache_put(&unwinder->rules, key, rule);
    return rule;
}

/* The same, and of a function whose address was put where a return address belongs, as
 * makecontext() does: what is before it is in no function. Nobody called it. */
static struct cfi_rule rule_find_anywhere(struct walk *walk)
{
    struct cfi_rule rule = rule_find(walk);
    if (rule.kind != CFI_RULE_NONE || !walk->is_return)
        return rule;
    walk->is_return = false;
    rule = rule_find(walk);
    if (rule.kind == CFI_RULE_NONE)
        walk->is_return = true;
    else
        rule.kind = CFI_RULE_ROOT;
    return rule;
}

/* The register that the rule counts from; false: it is not known in this frame. */
static inline bool base_read(const struct walk *walk, unsigned base, uint64_t *value)
{
    if (base == ARCH_PERF_INDEX_SP)
        *value = walk->place.sp;
    else if (base == ARCH_PERF_INDEX_FP)
        *value = walk->place.fp;
    else if (walk->registers != NULL)
        *value = walk->registers[base];
    else
        return false;
    return true;
}

static inline bool fp_read(const struct walk *walk, const struct cfi_rule *rule, uint64_t cfa,
                           uint64_t *fp)
{
    int64_t distance = (int64_t)rule->fp_words * (int64_t)WORD_BYTES;
    *fp = rule->fp == CFI_FP_SAME ? walk->place.fp : 0;
    if (rule->fp == CFI_FP_SAME || rule->fp == CFI_FP_LOST)
        return true;
    uint64_t from = (rule->fp == CFI_FP_AT_CFA ? cfa : walk->place.fp) + (uint64_t)distance;
    /* Compilers do not say that a register was popped: then it is below the stack pointer. */
    if (from < walk->place.sp) {
        *fp = walk->place.fp;
        return true;
    }
    return word_read(walk->unwinder, from, fp);
}

/* What is read from the living stack may have changed since the sample: then it is hardly a return
 * address any more. */
static inline bool is_plausible(struct unwinder *unwinder, uint64_t at, uint64_t return_address)
{
    const struct unwind_sample *sample = &unwinder->sample;
    return !unwinder->live || at - sample->registers[ARCH_PERF_INDEX_SP] < sample->stack_bytes ||
           unwind_follows_call(unwinder, return_address) ||
           unwind_is_signal_return(unwinder, return_address);
}

/* Is SLOT known_slot, and is it certain that what is known of a deep stack is this sample's? FP:
 * the caller's frame pointer, where the copy has it. */
static inline bool is_known(struct unwinder *unwinder, uint64_t slot, bool has_fp, uint64_t fp)
{
    struct deep_stack *deep = unwinder->sample.deep;
    if (slot != unwinder->known_slot || slot == 0)
        return false;
    if (unwinder->live) {
        unwinder->slot_fp = fp;
        return false;
    }
    return (!has_fp || fp == deep->fp) && deep_stack_holds(deep, unwinder->sample.time_ns);
}

/* The return address at SLOT, or what is below it, can't be read. */
static enum step step_cut(const struct walk *walk, uint64_t slot)
{
    walk->unwinder->cut_slot = slot;
    walk->unwinder->cut_sp = walk->place.sp;
    return STEP_UNREADABLE;
}

static inline enum step step_to(struct walk *walk, uint64_t return_address, uint64_t cfa,
                                uint64_t fp)
{
    walk->place = (struct unwind_place){.ip = return_address, .sp = cfa, .fp = fp};
    walk->is_return = true;
    walk->registers = NULL;
    return return_address == 0 ? STEP_ROOT : STEP_DONE;
}

/* To the caller of a function that has not saved where it returns to. */
static enum step step_link(struct walk *walk, struct cfi_rule rule, uint64_t cfa)
{
    uint64_t fp;
    if (cfa < walk->place.sp || !fp_read(walk, &rule, cfa, &fp))
        return STEP_HAND_OVER;
    return step_to(walk, walk->place.link, cfa, fp);
}

/* To the caller, whose return address lies at RETURNS_AT. */
static inline enum step step_call(struct walk *walk, struct cfi_rule rule, uint64_t cfa,
                                  uint64_t returns_at)
{
    struct unwinder *unwinder = walk->unwinder;
    uint64_t fp = 0, return_address;
    /* As with the frame pointer, it may not be said that it was popped. */
    if (walk->place.link != 0 && returns_at < walk->place.sp)
        return step_link(walk, rule, cfa);
    /* A function that has changed stacks, or damage. */
    if (cfa <= walk->place.sp)
        return STEP_HAND_OVER;
    bool has_fp = fp_read(walk, &rule, cfa, &fp);
    if (is_known(unwinder, returns_at, has_fp, fp))
        return STEP_KNOWN;
    if (!has_fp || !word_read(unwinder, returns_at, &return_address))
        return step_cut(walk, returns_at);
    return_address = arch_return_address(return_address);
    enum step step = step_to(walk, return_address, cfa, fp);
    if (step == STEP_ROOT || is_plausible(unwinder, returns_at, return_address))
        return step;
    return STEP_NO_RULE;
}

/* To the caller of a frame whose return address is in a register, where registers are known. */
static enum step step_register(struct walk *walk, struct cfi_rule rule)
{
    if (rule.words == 0 || walk->registers == NULL)
        return STEP_HAND_OVER;
    return step_to(walk, arch_return_address(walk->registers[rule.base]),
                   walk->place.sp + (uint64_t)(int64_t)rule.offset, walk->place.fp);
}

/* To what a signal interrupted. */
static enum step step_signal(struct walk *walk)
{
    for (unsigned i = 0; i < ARCH_PERF_REGISTER_COUNT; i++)
        if (!word_read(walk->unwinder, walk->place.sp + arch_signal_register_at[i],
                       &walk->context[i]))
            return STEP_UNREADABLE;
    walk->registers = walk->context;
    walk->place = unwind_place_of(walk->context);
    walk->is_return = false;
    walk->unwinder->stack_from = walk->place.sp; /* handlers may have a stack of their own */
    return STEP_DONE;
}

static enum step step_guess(struct walk *walk, bool is_leaf)
{
    struct unwinder *unwinder = walk->unwinder;
    uint64_t slot = walk->place.fp + WORD_BYTES;
    walk->registers = NULL;
    walk->is_return = true;
    if (unwind_guess(unwinder, is_leaf, &walk->place))
        return is_known(unwinder, walk->place.sp - WORD_BYTES, true, walk->place.fp) ? STEP_KNOWN
                                                                                     : STEP_DONE;
    /* A frame pointer that points on into the stack, or anywhere. */
    if (!unwinder->beyond_copy || walk->place.fp - walk->place.sp >= UNWIND_STACK_REACH_BYTES)
        return STEP_NO_RULE;
    return step_cut(walk, slot);
}

static bool base_recover(struct walk *walk, unsigned base, uint64_t *value);

/* By a rule that counts from a register. */
static inline enum step step_frame(struct walk *walk, struct cfi_rule rule)
{
    uint64_t cfa, distance = (uint64_t)((int64_t)rule.words * (int64_t)WORD_BYTES);
    if (walk->place.sp_is_low && rule.base == ARCH_PERF_INDEX_SP)
        return step_guess(walk, false);
    if (!base_read(walk, rule.base, &cfa) && !base_recover(walk, rule.base, &cfa))
        return STEP_HAND_OVER;
    cfa += (uint64_t)(int64_t)rule.offset;
    switch (rule.kind) {
    case CFI_RULE_MEMORY:
        if (!word_read(walk->unwinder, cfa, &cfa))
            return STEP_UNREADABLE;
        return step_call(walk, rule, cfa + distance, cfa + distance - WORD_BYTES);
    case CFI_RULE_RECORD:
        return step_call(walk, rule, cfa,
                         cfa + (uint64_t)((int64_t)rule.fp_words + 1) * WORD_BYTES);
    case CFI_RULE_LINK: /* a caller has overwritten the register by its call */
        return walk->is_return ? step_guess(walk, false) : step_link(walk, rule, cfa);
    default:
        return step_call(walk, rule, cfa, cfa + distance);
    }
}

/* IS_LEAF: it is the frame of the sample itself, or one that a signal interrupted. */
static inline enum step step_by(struct walk *walk, struct cfi_rule rule, bool is_leaf)
{
    switch (rule.kind) {
    case CFI_RULE_REGISTER:
    case CFI_RULE_MEMORY:
    case CFI_RULE_LINK:
    case CFI_RULE_RECORD:
        return step_frame(walk, rule);
    case CFI_RULE_SIGNAL:
        return step_signal(walk);
    case CFI_RULE_ROOT:
        return STEP_ROOT;
    case CFI_RULE_NONE:
        return step_guess(walk, is_leaf);
    default:
        return step_register(walk, rule);
    }
}

static struct walk walk_begin(struct unwinder *unwinder)
{
    const uint64_t *registers = unwinder->sample.registers;
    return (struct walk){
        .unwinder = unwinder, .registers = registers, .place = unwind_place_of(registers)};
}

/* *VALUE is of a register in the frame CALLEE; makes it that in the frame of its caller, which
 * begins at CFA. SAVED: the rule of the callee with `fp` telling of that register. */
static bool register_restore(const struct walk *callee, const struct cfi_rule *saved, uint64_t cfa,
                             uint64_t *value)
{
    bool is_frame = saved->kind >= CFI_RULE_REGISTER && saved->kind <= CFI_RULE_MEMORY;
    if (!is_frame || saved->fp == CFI_FP_LOST)
        return false;
    if (saved->fp == CFI_FP_SAME)
        return true;
    uint64_t from = (saved->fp == CFI_FP_AT_CFA ? cfa : callee->place.fp) +
                    (uint64_t)((int64_t)saved->fp_words * (int64_t)WORD_BYTES);
    return from < callee->place.sp || word_read(callee->unwinder, from, value);
}

/*
 * What register BASE holds in the frame of WALK, which its callees have left alone or saved: goes
 * to that frame once more, from the leaf, with an eye on the register. The dynamic linker needs it:
 * where it binds a function it aligns its stack, and finds its frame by rbx.
 */
static bool base_recover(struct walk *walk, unsigned base, uint64_t *value)
{
    if (walk->recoveries >= RECOVERIES_MAX)
        return false;
    walk->recoveries++;
    struct walk again = walk_begin(walk->unwinder);
    again.recoveries = RECOVERIES_MAX;
    *value = again.registers[base];
    for (unsigned i = 0; i < RECOVERED_FRAMES_MAX; i++) {
        struct cfi_rule saved;
        const struct cfi_rule rule = rule_find_anywhere(&again);
        const struct walk callee = again;
        if (!module_rule_find_with(walk->unwinder->modules, again.place.ip, again.is_return, base,
                                   &saved) ||
            step_by(&again, rule, !again.is_return) != STEP_DONE)
            return false;
        if (again.registers != NULL) /* a signal interrupted it */
            *value = again.registers[base];
        else if (!register_restore(&callee, &saved, again.place.sp, value))
            return false;
        if (again.place.sp == walk->place.sp && again.place.ip == walk->place.ip)
            return true;
    }
    return false;
}

static enum unwind_end end_of(const struct unwinder *unwinder, enum step step)
{
    if (step == STEP_ROOT)
        return UNWIND_ROOT;
    if (step == STEP_KNOWN)
        return UNWIND_KNOWN;
    return step == STEP_UNREADABLE && unwinder->beyond_copy ? UNWIND_CUT : UNWIND_NO_RULE;
}

size_t unwind_by_rules(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    const uint64_t *registers = unwinder->sample.registers;
    struct walk walk;
    walk.unwinder = unwinder;
    walk.recoveries = 0;
    walk.registers = registers;
    walk.is_return = false;
    walk.place = unwind_place_of(registers);
    size_t count = 0;
    enum step step = STEP_DONE;
    ips[count++] = walk.place.ip;
    for (;;) {
        struct cfi_rule rule = rule_find_anywhere(&walk);
        if (rule.kind == CFI_RULE_SIGNAL || !walk.is_return) /* it is not in a call */
            ips[count - 1] = walk.place.ip;
        step = step_by(&walk, rule, !walk.is_return);
        if (step == STEP_HAND_OVER) {
            if (unwinder->library->address_space != NULL)
                return 0;
            unwinder->missed++;
            step = step_guess(&walk, !walk.is_return);
        }
        if (step != STEP_DONE || count == UNWIND_FRAMES_MAX)
            break;
        ips[count++] = walk.place.ip - walk.is_return;
    }
    uint64_t reach = walk.place.sp - registers[ARCH_PERF_INDEX_SP];
    if (step == STEP_ROOT && reach < unwinder->reach_bytes)
        unwinder->reach_bytes = reach;
    *end = end_of(unwinder, step == STEP_DONE ? STEP_NO_RULE : step);
    return count;
}
