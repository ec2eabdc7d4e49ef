/* From places to names, module by module. Runs in the helper; reads files, never the app's memory.
 */
#include "frame_names.h"

#include <errno.h>

#include "kernel_symbols.h"
#include "module_names.h"
#include "folded.h"
#include "outpath.h"
#include "sort.h"
#include "text.h"

#define UNNAMED_BYTES 320u

static bool frame_before(const void *context, uint32_t a, uint32_t b)
{
    const struct profile *profile = context;
    const struct profile_frame *one = profile_frame_at(profile, a);
    const struct profile_frame *other = profile_frame_at(profile, b);
    if (one->module != other->module)
        return one->module < other->module;
    return one->address < other->address;
}

static const char *copy(struct arena *arena, const struct text *text)
{
    return arena_copy_text(arena, text->start, text->length);
}

/* "libfoo.so+0x1a40" for a function without a name; "[libfoo.so]" where not even that is known. */
static const char *unnamed(const struct module *module, uint64_t start, struct arena *arena)
{
    char buffer[UNNAMED_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    const char *base = module->kind == MODULE_VDSO ? "[vdso]" : outpath_base(module->path);
    if (module->kind == MODULE_ANONYMOUS)
        return NAMELESS_CODE;
    if (!module->has_elf) {
        text_put_char(&text, '[');
        folded_clean_name(&text, base);
        text_put_char(&text, ']');
    } else {
        folded_clean_name(&text, base);
        text_put(&text, "+0x");
        text_put_hex(&text, start);
    }
    return copy(arena, &text);
}

static const char *piece_name(const struct frame_names *names, uint32_t piece, struct arena *arena)
{
    char buffer[PERF_MAP_NAME_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    perf_map_put_name(names->stacks->perf_map, piece, &text);
    return copy(arena, &text);
}

/* Names code that had none when it was sampled: what was then there was told of afterwards. */
static void name_jit(struct frame_names *names, struct symbol_request *requests, uint32_t count,
                     struct arena *arena)
{
    bool settled;
    for (uint32_t i = 0; i < count && names->stacks->perf_map != NULL; i++) {
        uint32_t piece = perf_map_find(names->stacks->perf_map, requests[i].vaddr, 0, &settled);
        if (piece != CODE_NONE)
            requests[i].name = piece_name(names, piece, arena);
    }
}

static void name_module(struct frame_names *names, const struct module *module,
                        const uint32_t *frames, struct symbol_request *requests, uint32_t count,
                        struct arena *arena, struct arena *scratch)
{
    if (!module->has_elf)
        name_jit(names, requests, count, arena);
    else
        module_names_resolve(&module->elf, module->kind == MODULE_FILE ? module->path : NULL,
                             requests, count, arena, scratch);
    uint64_t last_start = 0;
    const char *last = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const char *name = requests[i].name;
        if (name == NULL) {
            /* Sorted by address, so the frames of one function come together. */
            if (last == NULL || requests[i].start_vaddr != last_start)
                last = unnamed(module, requests[i].start_vaddr, arena);
            last_start = requests[i].start_vaddr;
            name = last;
        }
        names->names[frames[i]] = name;
    }
}

static void name_kernel(struct frame_names *names, const uint32_t *frames,
                        struct symbol_request *requests, uint32_t count, struct arena *arena,
                        struct arena *scratch)
{
    kernel_symbols_resolve(names->kernel, requests, count, arena, scratch);
    names->kernel_hidden = names->kernel->state == KERNEL_SYMBOLS_HIDDEN;
    for (uint32_t i = 0; i < count; i++) {
        char buffer[UNNAMED_BYTES];
        struct text text = text_over(buffer, sizeof buffer);
        folded_clean_name(&text, requests[i].name != NULL ? requests[i].name : "[kernel]");
        text_put(&text, "_[k]");
        names->names[frames[i]] = requests[i].name != NULL ? copy(arena, &text) : "[kernel]";
    }
}

/* Frames that are in no module. */
static void name_others(struct frame_names *names, uint32_t module, const uint32_t *frames,
                        struct symbol_request *requests, uint32_t count, struct arena *arena)
{
    if (module == FRAME_OF_UNKNOWN)
        name_jit(names, requests, count, arena);
    for (uint32_t i = 0; i < count; i++) {
        const char *name = requests[i].name;
        if (module == FRAME_OF_TEXT || module == FRAME_OF_THREAD || module == FRAME_OF_LABEL)
            name = stack_text(names->stacks, requests[i].vaddr);
        else if (module == FRAME_OF_JIT)
            name = piece_name(names, (uint32_t)requests[i].vaddr, arena);
        names->names[frames[i]] = name != NULL ? name : "[unknown]";
    }
}

static void name_group(struct frame_names *names, uint32_t module, const uint32_t *frames,
                       struct symbol_request *requests, uint32_t count, struct arena *arena,
                       struct arena *scratch)
{
    const struct modules *modules = names->stacks->modules;
    if (module == FRAME_OF_KERNEL)
        name_kernel(names, frames, requests, count, arena, scratch);
    else if (module < modules_count(modules))
        name_module(names, modules_at(modules, module), frames, requests, count, arena, scratch);
    else
        name_others(names, module, frames, requests, count, arena);
}

int frame_names_find(struct frame_names *names, const struct stack_builder *stacks,
                     struct kernel_symbols *kernel, struct arena *arena, struct arena *scratch,
                     uint32_t *progress)
{
    const struct profile *profile = stacks->profile;
    uint32_t count = profile_frame_count(profile);
    *names = (struct frame_names){.stacks = stacks, .kernel = kernel};
    struct arena_mark mark = arena_mark(scratch);
    uint32_t *frames = arena_alloc_array(scratch, count, sizeof *frames);
    struct symbol_request *requests = arena_alloc_array(scratch, count, sizeof *requests);
    names->names = arena_alloc_array(arena, count, sizeof *names->names);
    if (frames == NULL || requests == NULL || names->names == NULL) {
        arena_release(scratch, mark);
        return -ENOMEM;
    }
    names->count = count;
    for (uint32_t i = 0; i < count; i++)
        frames[i] = i;
    sort_indices(frames, count, frame_before, profile);
    for (uint32_t i = 0; i < count; i++)
        requests[i].vaddr = profile_frame_at(profile, frames[i])->address;
    for (uint32_t first = 0, end; first < count; first = end) {
        uint32_t module = profile_frame_at(profile, frames[first])->module;
        for (end = first; end < count && profile_frame_at(profile, frames[end])->module == module;)
            end++;
        name_group(names, module, frames + first, requests + first, end - first, arena, scratch);
        __atomic_add_fetch(progress, 1, __ATOMIC_RELAXED);
    }
    arena_release(scratch, mark);
    return 0;
}

const char *frame_name(void *context, uint32_t frame)
{
    const struct frame_names *names = context;
    return frame < names->count ? names->names[frame] : NULL;
}
