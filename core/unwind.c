/* What the unwinders share. Runs in the helper. */
#include "unwind.h"

#include "arch.h"
#include "module_rules.h"

#define MEMO_ENTRIES 1024u

/* The living stack is read in pieces: a system call for each word would take most of the time. */
#define WINDOW_BYTES 16384u
#define PAGE_BYTES   4096u

/* A rest of a deep stack that is worth waking up soon for. */
#define REST_SHORT_NS 10000000u

#define WITHIN_PART 8u /* of a copy */

struct stack_window {
    uint64_t start;
    size_t bytes; /* 0: nothing has been read */
    uint8_t content[WINDOW_BYTES];
};

struct unwind_memo {
    uint64_t ip; /* 0: nothing is known */
    bool knows_signal_return, signal_return;
    bool follows_call; /* else it is not known */
    bool may_change;   /* follows_call is what was seen last */
};

void unwinder_init(struct unwinder *unwinder, const struct unwind_library *library,
                   struct modules *modules, struct app_memory *memory, struct arena *arena)
{
    *unwinder = (struct unwinder){
        .library = library,
        .modules = modules,
        .memory = memory,
        .arena = arena,
        .memo = arena_alloc_array(arena, MEMO_ENTRIES, sizeof(struct unwind_memo)),
        .window = arena_alloc(arena, sizeof(struct stack_window)),
    };
    rule_cache_init(&unwinder->rules, arena);
}

/* Forgets what was known of addresses where other code is now. */
static void memo_forget(struct unwinder *unwinder)
{
    for (uint32_t i = 0; unwinder->memo != NULL && i < MEMO_ENTRIES; i++)
        unwinder->memo[i].ip = 0;
}

/* The entry for IP, made if need be; NULL: none can be kept. */
static struct unwind_memo *memo_at(const struct unwinder *unwinder, uint64_t ip)
{
    if (unwinder->memo == NULL || ip == 0)
        return NULL;
    struct unwind_memo *memo = &unwinder->memo[(ip ^ ip >> 10) % MEMO_ENTRIES];
    if (memo->ip != ip)
        *memo = (struct unwind_memo){.ip = ip};
    return memo;
}

bool unwind_is_signal_return(struct unwinder *unwinder, uint64_t ip)
{
    struct unwind_memo *memo = memo_at(unwinder, ip);
    if (memo != NULL && memo->knows_signal_return)
        return memo->signal_return;
    bool result = module_is_signal_return(unwinder->modules, ip);
    if (memo != NULL) {
        memo->knows_signal_return = true;
        memo->signal_return = result;
    }
    return result;
}

/* Reads the living stack. What is beyond it may not be mapped, so a large piece may fail where a
 * small one can be had. */
static bool live_read(struct unwinder *unwinder, uint64_t address, void *buffer, size_t bytes)
{
    struct stack_window *window = unwinder->window;
    uint64_t start = address & ~(uint64_t)(PAGE_BYTES - 1);
    if (window == NULL || address + bytes - start > WINDOW_BYTES)
        return app_memory_copy(unwinder->memory, address, buffer, bytes) == 0;
    if (address - window->start >= window->bytes ||
        bytes > window->bytes - (address - window->start)) {
        size_t size = WINDOW_BYTES;
        while (size > 0 && app_memory_copy(unwinder->memory, start, window->content, size) != 0)
            size = size / 2 < PAGE_BYTES ? 0 : size / 2;
        window->start = start;
        window->bytes = size;
        if (address - start >= size || bytes > size - (address - start))
            return app_memory_copy(unwinder->memory, address, buffer, bytes) == 0;
    }
    __builtin_memcpy(buffer, window->content + (address - window->start), bytes);
    return true;
}

struct unwind_place unwind_place_of(const uint64_t *registers)
{
    return (struct unwind_place){.ip = registers[ARCH_PERF_INDEX_IP],
                                 .sp = registers[ARCH_PERF_INDEX_SP],
                                 .fp = registers[ARCH_PERF_INDEX_FP],
                                 .link = arch_link(registers)};
}

bool unwind_read_stack(struct unwinder *unwinder, uint64_t address, void *buffer, size_t bytes)
{
    const struct unwind_sample *sample = &unwinder->sample;
    uint64_t offset = address - sample->registers[ARCH_PERF_INDEX_SP];
    if (offset <= sample->stack_bytes && bytes <= sample->stack_bytes - offset) {
        __builtin_memcpy(buffer, sample->stack + offset, bytes);
        return true;
    }
    if (unwinder->live && address - unwinder->stack_from < UNWIND_STACK_REACH_BYTES &&
        live_read(unwinder, address, buffer, bytes))
        return true;
    unwinder->beyond_copy = true;
    return false;
}

static bool is_made(const struct unwinder *unwinder, const struct region *region)
{
    return modules_at(unwinder->modules, region->module)->kind == MODULE_ANONYMOUS;
}

bool unwind_is_made_code(struct unwinder *unwinder, uint64_t address)
{
    const struct region *region = modules_find(unwinder->modules, address);
    return region != NULL && is_made(unwinder, region);
}

bool unwind_follows_call(struct unwinder *unwinder, uint64_t address)
{
    uint8_t code[ARCH_CALL_BYTES];
    struct unwind_memo *memo = memo_at(unwinder, address);
    bool known = memo != NULL && memo->follows_call;
    if (known && !memo->may_change)
        return true;
    const struct region *region = modules_find(unwinder->modules, address - 1);
    if (region == NULL)
        return false;
    bool may_change = is_made(unwinder, region);
    if (app_memory_read_since(unwinder->memory, may_change ? unwinder->sample.time_ns : 0,
                              address - sizeof code, code, sizeof code) != 0)
        return known; /* made code may be gone by now */
    bool result = arch_ends_in_call(code);
    if (memo != NULL) {
        memo->follows_call = result;
        memo->may_change = may_change;
    }
    return result;
}

static size_t unwind_once(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    unwinder->beyond_copy = false;
    unwinder->unknown_ip = unwinder->cut_slot = 0;
    unwinder->reach_bytes = unwinder->sample.stack_bytes;
    unwinder->stack_from = unwinder->sample.registers[ARCH_PERF_INDEX_SP];
    size_t count = unwind_by_rules(unwinder, ips, end);
    if (count > 0)
        return count;
    unwinder->handed_over++;
    unwinder->beyond_copy = false;
    unwinder->cut_slot = 0;
    unwinder->stack_from = unwinder->sample.registers[ARCH_PERF_INDEX_SP];
    return unwind_by_libunwind(unwinder, ips, end);
}

/* By what the living stack is now. Returns 0 where it makes no sense: the walk must end at the
 * root, and every return address on it must follow a call. libunwind is not asked: it would go by
 * more registers of the sample's than are checked later. */
static size_t unwind_live(struct unwinder *unwinder, uint64_t *ips)
{
    enum unwind_end end;
    unwinder->live = true;
    if (unwinder->window != NULL)
        unwinder->window->bytes = 0;
    unwinder->stack_from = unwinder->sample.registers[ARCH_PERF_INDEX_SP];
    size_t count = unwind_by_rules(unwinder, ips, &end);
    unwinder->live = false;
    return count > 0 && end == UNWIND_ROOT ? count : 0;
}

static bool can_watch(struct unwinder *unwinder)
{
    if (!unwinder->watching_tried)
        unwinder->watching_fails = !deep_stack_is_possible();
    unwinder->watching_tried = true;
    return !unwinder->watching_fails;
}

/* Watches the return address that the walk, of COUNT frames, was cut at, and notes its callers,
 * read anew from that frame's own stack on. */
static void deep_stack_read(struct unwinder *unwinder, uint64_t *ips, size_t count)
{
    struct unwind_sample *sample = &unwinder->sample;
    struct deep_stack *deep = sample->deep;
    uint64_t outermost = ips[count - 1];
    uint64_t below = unwinder->cut_sp - sample->registers[ARCH_PERF_INDEX_SP];
    if (deep_stack_watch(deep, sample->tid, unwinder->cut_slot) != 0)
        return;
    if (below < sample->stack_bytes)
        sample->stack_bytes = below;
    unwinder->known_slot = deep->slot;
    size_t live_count = unwind_live(unwinder, ips);
    unwinder->known_slot = 0;
    deep->fp = unwinder->slot_fp;
    /* The kernel writes where a handler returns to, and is not watched. */
    if (live_count <= count || ips[count - 1] != outermost ||
        unwind_is_signal_return(unwinder, ips[count]) ||
        deep_stack_know(deep, ips + count, live_count - count, unwinder->arena) != 0)
        deep_stack_end(deep);
}

/*
 * For the samples that are to come, after one that was cut. What is watched lies a bit within the
 * copy, so that samples whose leaf is a bit deeper have it too.
 */
static void deep_stack_renew(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    size_t bytes = unwinder->sample.stack_bytes;
    unwinder->sample.stack_bytes = bytes - bytes / WITHIN_PART;
    size_t count = unwind_once(unwinder, ips, end);
    if (unwinder->cut_slot != 0)
        deep_stack_read(unwinder, ips, count);
    unwinder->sample.stack_bytes = bytes;
    unwind_once(unwinder, ips, end);
}

/* The callers of the frame at known_slot, which is the last of COUNT. */
static size_t known_append(const struct deep_stack *deep, uint64_t *ips, size_t count,
                           enum unwind_end *end)
{
    *end = UNWIND_CUT;
    if (deep->count > UNWIND_FRAMES_MAX - count)
        return count;
    __builtin_memcpy(ips + count, deep->ips, deep->count * sizeof *ips);
    *end = UNWIND_ROOT;
    return count + deep->count;
}

/* Looks ahead, after a stack that was cut. */
static void deep_stack_prepare(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    struct deep_stack *deep = unwinder->sample.deep;
    uint64_t time_ns = unwinder->sample.time_ns;
    if (deep == NULL || unwinder->cut_slot == 0 || !can_watch(unwinder))
        return;
    unwinder->watch_wanted |= deep_stack_is_rested(deep, time_ns + REST_SHORT_NS);
    /* A watch that began only after the sample may yet tell of others. */
    if (unwinder->sample.is_newest && time_ns > deep->since_ns &&
        deep_stack_is_rested(deep, time_ns))
        deep_stack_renew(unwinder, ips, end);
}

/* What was kept of places where other code is mapped now is void. */
static void forget_replaced(struct unwinder *unwinder)
{
    if (unwinder->seen_replaced == unwinder->modules->replaced)
        return;
    unwinder->seen_replaced = unwinder->modules->replaced;
    unwinder->span = (struct module_span){0, 0};
    rule_cache_forget(&unwinder->rules, unwinder->modules->stale.start,
                      unwinder->modules->stale.end);
    unwinder->modules->stale = unwinder->span;
    memo_forget(unwinder);
    app_memory_forget(unwinder->memory);
    if (unwinder->library->address_space != NULL)
        unwind_library_forget(unwinder->library);
}

size_t unwind_stack(struct unwinder *unwinder, const struct unwind_sample *sample, uint64_t *ips,
                    enum unwind_end *end)
{
    unwinder->sample = *sample;
    forget_replaced(unwinder);
    struct deep_stack *deep = sample->deep;
    unwinder->known_slot = deep != NULL ? deep->slot : 0;
    size_t count = unwind_once(unwinder, ips, end);
    unwinder->known_slot = 0;
    if (*end == UNWIND_KNOWN)
        return known_append(deep, ips, count, end);
    if (*end == UNWIND_CUT)
        deep_stack_prepare(unwinder, ips, end);
    return count;
}
