/*
 * libunwind's remote interface over a sample: registers and stack from the sample, code and unwind
 * tables from the app's memory, the module by our own map. The only file that knows libunwind.h.
 *
 * Runs in the helper (unwind_library_prepare in the app's main thread, before main). libunwind's
 * own look-ups of maps and names are never used: they are slow, and they allocate.
 */
#include "unwind.h"

#include <errno.h>
#include <libunwind.h>

#include "arch.h"
#include "module_rules.h"

#define CACHE_LOG_ENTRIES 14 /* of rules per address; 16384 entries are 2 MiB, touched as used */

enum symbol { CREATE, POLICY, CACHE_SIZE, FLUSH, INIT, STEP, GET_REG, SEARCH };

#define NAME_OF(symbol)  #symbol
#define NAME_OF_(symbol) NAME_OF(symbol)

const char unwind_library_file[] = ARCH_LIBUNWIND_FILE;
const char *const unwind_symbol_names[UNWIND_SYMBOLS] = {
    [CREATE] = NAME_OF_(unw_create_addr_space),
    [POLICY] = NAME_OF_(unw_set_caching_policy),
    [CACHE_SIZE] = NAME_OF_(unw_set_cache_size),
    [FLUSH] = NAME_OF_(unw_flush_cache),
    [INIT] = NAME_OF_(unw_init_remote),
    [STEP] = NAME_OF_(unw_step),
    [GET_REG] = NAME_OF_(unw_get_reg),
    [SEARCH] = NAME_OF_(UNW_OBJ(dwarf_search_unwind_table)),
};

typedef unw_addr_space_t create_function(unw_accessors_t *, int);
typedef int policy_function(unw_addr_space_t, unw_caching_policy_t);
typedef int cache_size_function(unw_addr_space_t, size_t, int);
typedef void flush_function(unw_addr_space_t, unw_word_t, unw_word_t);
typedef int init_function(unw_cursor_t *, unw_addr_space_t, void *);
typedef int step_function(unw_cursor_t *);
typedef int get_reg_function(unw_cursor_t *, int, unw_word_t *);
typedef int search_function(unw_addr_space_t, unw_word_t, unw_dyn_info_t *, unw_proc_info_t *, int,
                            void *);

#define CALL(library, symbol, type) ((type *)(library)->symbols[symbol])

/* The header of .eh_frame_hdr in the one form that linkers write and that can be searched in place:
 * pc-relative pointer, count of 4 bytes, table of 4-byte offsets from the header's own address. */
struct table_header {
    uint8_t version, pointer_encoding, count_encoding, table_encoding;
    int32_t eh_frame;
    uint32_t count;
};

/* *SHIFT: what is added to an address of the region for the made-up table, see
 * region_table_address(); as it was where the table is the file's. */
static bool table_of_region(struct unwinder *unwinder, const struct region *region,
                            unw_dyn_info_t *info, uint64_t *shift)
{
    const struct module *module = modules_at(unwinder->modules, region->module);
    *info = (unw_dyn_info_t){
        .start_ip = region->start, .end_ip = region->end, .format = UNW_INFO_FORMAT_REMOTE_TABLE};
    if (module->table_base != 0) {
        /* The made-up table: its entries, then the bytes they point to. */
        info->u.rti.segbase = module->table_base;
        info->u.rti.table_data = (unw_word_t)(uintptr_t)module->table.entries;
        info->u.rti.table_len = module->table.entry_count;
        *shift = region_table_address(region, module, 0);
        return true;
    }
    if (!module->has_elf || module->elf.eh_frame_hdr_bytes < sizeof(struct table_header))
        return false;
    uint64_t address = module->elf.eh_frame_hdr_vaddr + region->bias;
    struct table_header header;
    if (app_memory_read(unwinder->memory, address, &header, sizeof header) != 0 ||
        header.version != 1 || header.pointer_encoding != 0x1b || header.count_encoding != 0x03 ||
        header.table_encoding != 0x3b ||
        header.count > (module->elf.eh_frame_hdr_bytes - sizeof header) / 8)
        return false;
    info->u.rti.segbase = address;
    info->u.rti.table_data = address + sizeof header;
    info->u.rti.table_len = header.count;
    return true;
}

static int find_proc_info(unw_addr_space_t space, unw_word_t ip, unw_proc_info_t *proc,
                          int need_unwind_info, void *context)
{
    struct unwinder *unwinder = context;
    unw_dyn_info_t info;
    ip = arch_return_address(ip);
    const struct region *region = modules_find(unwinder->modules, ip);
    int result = -UNW_ENOINFO;
    uint64_t shift = 0;
    if (region != NULL && table_of_region(unwinder, region, &info, &shift))
        result = CALL(unwinder->library, SEARCH, search_function)(space, ip + shift, &info, proc,
                                                                  need_unwind_info, context);
    if (result < 0) {
        unwinder->unknown_ip = ip;
        return result;
    }
    proc->start_ip -= shift; /* its instructions are run from there on, up to IP */
    proc->end_ip -= shift;
    return result;
}

static void put_unwind_info(unw_addr_space_t space, unw_proc_info_t *proc, void *context)
{
    (void)space;
    (void)proc;
    (void)context;
}

static int get_dyn_info_list_addr(unw_addr_space_t space, unw_word_t *address, void *context)
{
    (void)space;
    (void)address;
    (void)context;
    return -UNW_ENOINFO;
}

/* Reads a word of a module's made-up table, if ADDRESS is in one: its bytes by the address they are
 * said to have, its entries by their own. */
static bool made_up_read(const struct unwinder *unwinder, uint64_t address, unw_word_t *value)
{
    for (uint32_t i = 0; i < modules_count(unwinder->modules); i++) {
        const struct module *module = modules_at(unwinder->modules, i);
        if (module->table_base == 0)
            continue;
        const struct cfi_table *table = &module->table;
        const uint8_t *entries = (const uint8_t *)table->entries;
        uint64_t in_bytes = address - module->table_base;
        uint64_t in_entries = address - (uintptr_t)entries;
        const uint8_t *at = in_bytes < table->bytes_count ? table->bytes + in_bytes : NULL;
        uint64_t left = table->bytes_count - in_bytes;
        if (at == NULL && in_entries < table->entry_count * sizeof *table->entries) {
            at = entries + in_entries;
            left = table->entry_count * sizeof *table->entries - in_entries;
        }
        if (at == NULL)
            continue;
        *value = 0; /* it reads whole words, also where fewer bytes are left */
        __builtin_memcpy(value, at, left < sizeof *value ? left : sizeof *value);
        return true;
    }
    return false;
}

static int access_mem(unw_addr_space_t space, unw_word_t address, unw_word_t *value, int write,
                      void *context)
{
    (void)space;
    struct unwinder *unwinder = context;
    if (write)
        return -UNW_EINVAL;
    uint64_t stack = unwinder->sample.registers[ARCH_PERF_INDEX_SP];
    if (address - stack < unwinder->sample.stack_bytes)
        return unwind_read_stack(unwinder, address, value, sizeof *value) ? 0 : -UNW_EINVAL;
    if (unwinder->modules->made_up_tables != 0 && made_up_read(unwinder, address, value))
        return 0;
    if (address < unwinder->span.start || address >= unwinder->span.end)
        unwinder->span = modules_span(unwinder->modules, address);
    /* What is in no module is stack beyond the copy. */
    if (unwinder->span.end == 0)
        return unwind_read_stack(unwinder, address, value, sizeof *value) ? 0 : -UNW_EINVAL;
    return app_memory_read(unwinder->memory, address, value, sizeof *value) == 0 ? 0 : -UNW_EINVAL;
}

static int access_reg(unw_addr_space_t space, unw_regnum_t number, unw_word_t *value, int write,
                      void *context)
{
    (void)space;
    const struct unwinder *unwinder = context;
    if (write || number < 0 || number >= (int)ARCH_DWARF_REGISTER_COUNT)
        return -UNW_EBADREG;
    *value = unwinder->sample.registers[arch_dwarf_to_perf[number]];
    return 0;
}

static int access_fpreg(unw_addr_space_t space, unw_regnum_t number, unw_fpreg_t *value, int write,
                        void *context)
{
    (void)space;
    (void)number;
    (void)value;
    (void)write;
    (void)context;
    return -UNW_EBADREG;
}

static int resume(unw_addr_space_t space, unw_cursor_t *cursor, void *context)
{
    (void)space;
    (void)cursor;
    (void)context;
    return -UNW_EINVAL;
}

static int get_proc_name(unw_addr_space_t space, unw_word_t address, char *buffer, size_t bytes,
                         unw_word_t *offset, void *context)
{
    (void)space;
    (void)address;
    (void)buffer;
    (void)bytes;
    (void)offset;
    (void)context;
    return -UNW_ENOINFO;
}

static unw_accessors_t accessors = {
    .find_proc_info = find_proc_info,
    .put_unwind_info = put_unwind_info,
    .get_dyn_info_list_addr = get_dyn_info_list_addr,
    .access_mem = access_mem,
    .access_reg = access_reg,
    .access_fpreg = access_fpreg,
    .resume = resume,
    .get_proc_name = get_proc_name,
};

int unwind_library_prepare(struct unwind_library *library)
{
    for (unsigned i = 0; i < UNWIND_SYMBOLS; i++)
        if (library->symbols[i] == NULL)
            return -ENOSYS;
    unw_addr_space_t space = CALL(library, CREATE, create_function)(&accessors, 0);
    if (space == NULL)
        return -ENOSYS;
    library->address_space = space;
    return 0;
}

void unwind_library_forget(const struct unwind_library *library)
{
    CALL(library, FLUSH, flush_function)(library->address_space, 0, 0);
}

static enum unwind_end end_of(struct unwinder *unwinder, int step_result, uint64_t last_ip)
{
    /* libunwind also says "no more frames" where it had no table and its guess led nowhere. */
    bool by_table = unwinder->unknown_ip != last_ip && unwinder->unknown_ip != last_ip - 1;
    if (!by_table && module_is_entry_code(unwinder->modules, last_ip))
        return UNWIND_ROOT;
    if (unwinder->beyond_copy)
        return UNWIND_CUT;
    return step_result == 0 && by_table ? UNWIND_ROOT : UNWIND_NO_RULE;
}

/* The instruction of the frame at the cursor: a return address is moved back into its call, so that
 * a call at the very end of a function is not taken for the next function. */
static uint64_t frame_ip(struct unwinder *unwinder, uint64_t ip, bool called)
{
    return called && !unwind_is_signal_return(unwinder, ip) ? ip - 1 : ip;
}

/* All registers of the frame at the cursor; those that are not known there are 0. */
static void registers_take(struct unwinder *unwinder, unw_cursor_t *cursor,
                           uint64_t registers[ARCH_PERF_REGISTER_COUNT])
{
    for (int i = 0; i < (int)ARCH_DWARF_REGISTER_COUNT; i++) {
        unw_word_t value = 0;
        if (CALL(unwinder->library, GET_REG, get_reg_function)(cursor, i, &value) < 0)
            value = 0;
        registers[arch_dwarf_to_perf[i]] = value;
    }
    unw_word_t ip = 0; /* where it differs from that register, this is right */
    if (CALL(unwinder->library, GET_REG, get_reg_function)(cursor, UNW_REG_IP, &ip) == 0)
        registers[ARCH_PERF_INDEX_IP] = arch_return_address(ip);
}

/* Follows the cursor's callers from a frame at IP, of which COUNT are in IPS already. REGISTERS are
 * left as they are in the last frame. */
static size_t follow(struct unwinder *unwinder, unw_cursor_t *cursor, uint64_t ip, uint64_t *ips,
                     size_t count, enum unwind_end *end,
                     uint64_t registers[ARCH_PERF_REGISTER_COUNT])
{
    const struct unwind_library *library = unwinder->library;
    bool interrupted = unwind_is_signal_return(unwinder, ip);
    for (;;) {
        unw_cursor_t here = *cursor;
        int result = CALL(library, STEP, step_function)(cursor);
        unw_word_t next = 0;
        if (result > 0 && CALL(library, GET_REG, get_reg_function)(cursor, UNW_REG_IP, &next) < 0)
            next = 0;
        /* libunwind guesses where it has no table; so do we, but more carefully. */
        bool guessed = unwinder->unknown_ip == ip || unwinder->unknown_ip == ip - 1;
        if (next == 0 || guessed || count == UNWIND_FRAMES_MAX) {
            *end = end_of(unwinder, result > 0 && guessed ? -1 : result, ip);
            registers_take(unwinder, &here, registers);
            return count;
        }
        ip = arch_return_address(next);
        ips[count++] = frame_ip(unwinder, ip, !interrupted);
        interrupted = unwind_is_signal_return(unwinder, ip);
    }
}

/* Sets up libunwind's cache. It opens a pipe at this, which must not be the app's, and takes a
 * lock: in the helper, and where no fork can come in between. */
static void unwind_library_tune(const struct unwind_library *library)
{
    unw_addr_space_t space = library->address_space;
    CALL(library, POLICY, policy_function)(space, UNW_CACHE_GLOBAL);
    CALL(library, CACHE_SIZE, cache_size_function)(space, 1u << CACHE_LOG_ENTRIES, 0);
}

/* Unwinds from the sample's registers; the first frame is put at COUNT. */
static size_t unwind_from(struct unwinder *unwinder, uint64_t *ips, size_t count,
                          enum unwind_end *end, uint64_t registers[ARCH_PERF_REGISTER_COUNT])
{
    uint64_t ip = unwinder->sample.registers[ARCH_PERF_INDEX_IP];
    const struct unwind_library *library = unwinder->library;
    unw_cursor_t cursor;
    ips[count] = count == 0 ? ip : ip - 1;
    *end = UNWIND_NO_RULE;
    __builtin_memcpy(registers, unwinder->sample.registers,
                     ARCH_PERF_REGISTER_COUNT * sizeof *registers);
    if (!unwinder->library_is_tuned)
        unwind_library_tune(library);
    unwinder->library_is_tuned = true;
    if (CALL(library, INIT, init_function)(&cursor, library->address_space, unwinder) < 0)
        return count + 1;
    return follow(unwinder, &cursor, ip, ips, count + 1, end, registers);
}

/* The sample as it would be had it been taken in the frame of REGISTERS: the stack above that. */
static void sample_move(struct unwinder *unwinder, const struct unwind_sample *taken,
                        const uint64_t registers[ARCH_PERF_REGISTER_COUNT])
{
    uint64_t passed = registers[ARCH_PERF_INDEX_SP] - taken->registers[ARCH_PERF_INDEX_SP];
    unwinder->sample = (struct unwind_sample){
        .registers = registers,
        .stack = taken->stack + passed,
        .stack_bytes = passed < taken->stack_bytes ? taken->stack_bytes - passed : 0,
        .time_ns = taken->time_ns};
    unwinder->beyond_copy = false;
    unwinder->unknown_ip = 0;
}

/* A guess, by the registers that guesses go by. libunwind needs the caller's very stack pointer to
 * go on from there. */
static bool guess(struct unwinder *unwinder, bool is_leaf,
                  uint64_t registers[ARCH_PERF_REGISTER_COUNT])
{
    struct unwind_place place = unwind_place_of(registers);
    if (!unwind_guess(unwinder, is_leaf, &place) || place.sp_is_low)
        return false;
    registers[ARCH_PERF_INDEX_IP] = place.ip;
    registers[ARCH_PERF_INDEX_SP] = place.sp;
    registers[ARCH_PERF_INDEX_FP] = place.fp;
    return true;
}

size_t unwind_by_libunwind(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    const struct unwind_sample taken = unwinder->sample;
    uint64_t registers[ARCH_PERF_REGISTER_COUNT], start[ARCH_PERF_REGISTER_COUNT];
    size_t count = unwind_from(unwinder, ips, 0, end, registers);
    /* Every guess but the first moves the stack pointer up, so this ends. */
    while (*end != UNWIND_ROOT && count < UNWIND_FRAMES_MAX) {
        uint64_t sp = registers[ARCH_PERF_INDEX_SP];
        bool is_known = unwinder->unknown_ip == 0;
        if (is_known || !guess(unwinder, count == 1, registers) ||
            registers[ARCH_PERF_INDEX_SP] < sp + (count > 1))
            break;
        __builtin_memcpy(start, registers, sizeof start);
        sample_move(unwinder, &taken, start);
        count = unwind_from(unwinder, ips, count, end, registers);
    }
    unwinder->sample = taken;
    return count;
}
