/*
 * Makes a pprof file of a profile. Runs in the helper, when the app has ended or at a checkpoint.
 * Never changes the profile, never recurses. Reads no files and no memory of the app.
 */
#include "pprof_profile.h"

#include <errno.h>
#include <string.h>

#include "folded.h"
#include "text.h"

/* As in the folded file: once this much is written, of deeper stacks only the ends are. */
#define WHOLE_BYTES  (32u * 1024 * 1024)
#define SHORT_FRAMES 1024u

#define PAGE_BYTES 4096u

/* A thread or a label, of which samples are. */
struct label_frame {
    uint64_t string; /* 0: the frame is none of these */
    uint32_t tid;    /* 0: not told */
};

struct writing {
    const struct named_profile *named;
    const struct stack_builder *stacks;
    struct pprof pprof;
    struct outfile *out;
    struct name_tree tree;
    uint64_t *counts;           /* by node of the profile */
    struct label_frame *labels; /* by frame */
    bool *function_is_there;    /* by number of its name */
    bool *module_is_there;      /* by module: as linked */
    uint32_t *region_of;        /* by module: where its last frame was found */
    uint64_t *path;             /* of the sample in work, leaf first */
};

static bool arrays_make(struct writing *work, struct arena *scratch)
{
    const struct profile *profile = work->named->profile;
    uint32_t modules = modules_count(work->stacks->modules);
    size_t frames = profile_frame_count(profile);
    work->counts = arena_alloc_array(scratch, profile_node_count(profile), sizeof *work->counts);
    work->labels = arena_alloc_array(scratch, frames, sizeof *work->labels);
    work->function_is_there = arena_alloc_array(scratch, work->tree.names, sizeof(bool));
    work->module_is_there = arena_alloc_array(scratch, modules, sizeof(bool));
    work->region_of = arena_alloc_array(scratch, modules, sizeof *work->region_of);
    work->path = arena_alloc_array(scratch, (size_t)profile->depth_max + 1, sizeof *work->path);
    return work->counts != NULL && work->labels != NULL && work->function_is_there != NULL &&
           work->module_is_there != NULL && work->region_of != NULL && work->path != NULL;
}

/* ---- counts ---- */

/* What a node of the tree gives to those that were merged into it. */
struct giving {
    uint64_t weight_ns; /* of those that have been given something */
    uint64_t given;
    uint32_t last; /* of those with a weight, if there are any; plus 1 */
};

/* Each node of the profile gets what its weight adds to the rounded down sum of those before it,
 * and the last one the rest. */
static bool counts_spread(struct writing *work, struct arena *scratch)
{
    const struct profile *profile = work->named->profile;
    const struct name_tree *tree = &work->tree;
    uint32_t merged = profile_node_count(&tree->merged);
    struct giving *givings = arena_alloc_array(scratch, merged, sizeof *givings);
    if (givings == NULL)
        return false;
    for (uint32_t i = 0; i < profile_node_count(profile); i++) {
        struct giving *giving = &givings[tree->nodes[i]];
        uint64_t weight_ns = profile_node_at(profile, i)->weight_ns;
        giving->weight_ns += weight_ns;
        uint64_t due = giving->weight_ns / work->named->unit_ns;
        if (due > tree->counts[tree->nodes[i]])
            due = tree->counts[tree->nodes[i]];
        work->counts[i] = due - giving->given;
        giving->given = due;
        if (weight_ns > 0 || giving->last == 0)
            giving->last = i + 1;
    }
    for (uint32_t i = 0; i < merged; i++)
        if (givings[i].last != 0)
            work->counts[givings[i].last - 1] += tree->counts[i] - givings[i].given;
    return true;
}

/* ---- mappings ---- */

static const char *build_id_of(const struct module *module, struct text *text)
{
    if (module->has_elf && module->elf.build_id_bytes > 0)
        text_put_hex_bytes(text, module->elf.build_id, module->elf.build_id_bytes);
    return text->start;
}

static void mapping_put(struct writing *work, struct pprof_mapping mapping,
                        const struct module *module)
{
    char buffer[2 * ELF_BUILD_ID_BYTES + 1];
    struct text text = text_over(buffer, sizeof buffer);
    mapping.file = module->kind == MODULE_VDSO ? "[vdso]" : module->path;
    mapping.build_id = build_id_of(module, &text);
    pprof_mapping(&work->pprof, &mapping);
}

/* The mappings of now, by the numbers of their regions. */
static void regions_put(struct writing *work)
{
    const struct modules *modules = work->stacks->modules;
    for (uint32_t i = 0; i < modules->region_count; i++) {
        const struct region *region = &modules->regions[i];
        if (region->bias_known && modules_at(modules, region->module)->has_elf)
            mapping_put(work,
                        (struct pprof_mapping){.id = i + 1,
                                               .start = region->start,
                                               .limit = region->end,
                                               .file_offset = region->file_offset},
                        modules_at(modules, region->module));
    }
}

/* The mapping that MODULE would have if it were loaded where it was linked to be. */
static uint64_t linked_mapping(struct writing *work, uint32_t index)
{
    const struct modules *modules = work->stacks->modules;
    const struct module *module = modules_at(modules, index);
    uint64_t id = (uint64_t)modules->region_count + index + 1;
    for (uint32_t i = 0; i < module->elf.segment_count && !work->module_is_there[index]; i++) {
        const struct elf_segment *segment = &module->elf.segments[i];
        if (!segment->executable)
            continue;
        mapping_put(
            work,
            (struct pprof_mapping){.id = id,
                                   .start = segment->vaddr & ~(uint64_t)(PAGE_BYTES - 1),
                                   .limit = segment->vaddr + segment->memory_bytes,
                                   .file_offset = segment->offset & ~(uint64_t)(PAGE_BYTES - 1)},
            module);
        work->module_is_there[index] = true;
    }
    return work->module_is_there[index] ? id : 0;
}

static bool region_has(const struct region *region, uint32_t module, uint64_t linked)
{
    return region->module == module && region->bias_known &&
           linked + region->bias >= region->start && linked + region->bias < region->end;
}

/* The region in which LINKED, an address of MODULE, lies now; NULL: it is not mapped any more. */
static const struct region *region_of(struct writing *work, uint32_t module, uint64_t linked)
{
    const struct modules *modules = work->stacks->modules;
    if (modules->region_count > 0 &&
        region_has(&modules->regions[work->region_of[module]], module, linked))
        return &modules->regions[work->region_of[module]];
    for (uint32_t i = 0; i < modules->region_count; i++) {
        if (region_has(&modules->regions[i], module, linked)) {
            work->region_of[module] = i;
            return &modules->regions[i];
        }
    }
    return NULL;
}

/* ---- frames ---- */

/* Where in memory FRAME is; *MAPPING is set to that which it lies in, or 0. */
static uint64_t address_of(struct writing *work, const struct profile_frame *frame,
                           uint64_t *mapping)
{
    const struct modules *modules = work->stacks->modules;
    *mapping = 0;
    if (frame->module == FRAME_OF_TEXT)
        return 0;
    if (frame->module == FRAME_OF_JIT)
        return code_index_at(&work->stacks->perf_map->code, (uint32_t)frame->address)->start;
    if (frame->module >= modules_count(modules) || !modules_at(modules, frame->module)->has_elf)
        return frame->address;
    const struct region *region = region_of(work, frame->module, frame->address);
    if (region == NULL) {
        *mapping = linked_mapping(work, frame->module);
        return frame->address;
    }
    *mapping = (uint64_t)(region - modules->regions) + 1;
    return frame->address + region->bias;
}

static uint64_t function_put(struct writing *work, uint32_t number)
{
    if (!work->function_is_there[number])
        pprof_function(&work->pprof, (uint64_t)number + 1, work->tree.texts[number]);
    work->function_is_there[number] = true;
    return (uint64_t)number + 1;
}

/* A frame that is a label. A thread's text ends in its id where that is told apart. */
static void label_put(struct writing *work, const struct profile_frame *frame)
{
    char name[STACK_TEXT_BYTES];
    struct text text = text_over(name, sizeof name);
    struct label_frame *label = &work->labels[frame->index];
    text_put(&text, stack_text(work->stacks, frame->address));
    label->tid = frame->module == FRAME_OF_THREAD ? frame_thread_id(frame->address) : 0;
    for (size_t i = text.length; label->tid != 0 && i-- > 0;) {
        if (name[i] == '/') {
            name[i] = '\0';
            break;
        }
    }
    label->string = pprof_string(&work->pprof, name);
}

static void frames_put(struct writing *work)
{
    const struct profile *profile = work->named->profile;
    uint32_t count = profile_frame_count(profile);
    for (uint32_t i = 0; i < count && work->out->error == 0; i++) {
        const struct profile_frame *frame = profile_frame_at(profile, i);
        if (frame->module == FRAME_OF_THREAD || frame->module == FRAME_OF_LABEL) {
            label_put(work, frame);
            continue;
        }
        uint64_t mapping, address = address_of(work, frame, &mapping);
        const uint64_t function = function_put(work, work->tree.numbers[i]);
        pprof_location(&work->pprof, (uint64_t)i + 1, mapping, address, &function, 1);
    }
    const uint64_t left_out = (uint64_t)work->tree.names + 1;
    pprof_function(&work->pprof, left_out, FOLDED_LEFT_OUT);
    pprof_location(&work->pprof, (uint64_t)count + 1, 0, 0, &left_out, 1);
}

/* ---- samples ---- */

static size_t labels_of(const struct writing *work, const struct profile_frame *frame,
                        struct pprof_label *labels, size_t count)
{
    const struct label_frame *label = &work->labels[frame->index];
    bool is_thread = frame->module == FRAME_OF_THREAD;
    labels[count++] = (struct pprof_label){.key = is_thread ? PPROF_THREAD : PPROF_LABEL,
                                           .string = label->string};
    if (label->tid != 0)
        labels[count++] = (struct pprof_label){.key = PPROF_TID, .number = label->tid};
    return count;
}

/* A sample's midst is left out. Returns how many locations there are then. */
static size_t path_shorten(const struct writing *work, size_t count)
{
    uint64_t *path = work->path;
    size_t half = SHORT_FRAMES / 2;
    if (count <= SHORT_FRAMES || work->pprof.bytes < WHOLE_BYTES)
        return count;
    path[half] = (uint64_t)profile_frame_count(work->named->profile) + 1;
    memmove(path + half + 1, path + count - half, half * sizeof *path);
    return 2 * half + 1;
}

/* Is this frame, as its caller, code without a name? These are one in the folded file. */
static bool is_repeated(const struct writing *work, const struct profile_node *node)
{
    const struct name_tree *tree = &work->tree;
    return node->parent != PROFILE_NONE && tree->nodes[node->index] == tree->nodes[node->parent];
}

static void sample_put(struct writing *work, const struct profile_node *leaf)
{
    const struct profile *profile = work->named->profile;
    struct pprof_label labels[PPROF_LABELS_MAX];
    size_t frames = 0, label_count = 0;
    for (const struct profile_node *node = leaf;; node = profile_node_at(profile, node->parent)) {
        if (work->labels[node->frame].string != 0)
            label_count =
                labels_of(work, profile_frame_at(profile, node->frame), labels, label_count);
        else if (!is_repeated(work, node))
            work->path[frames++] = (uint64_t)node->frame + 1;
        if (node->parent == PROFILE_NONE)
            break;
    }
    pprof_sample(&work->pprof, work->path, path_shorten(work, frames), work->counts[leaf->index],
                 leaf->weight_ns, labels, label_count);
}

static void samples_put(struct writing *work)
{
    const struct profile *profile = work->named->profile;
    for (uint32_t i = 0; i < profile_node_count(profile) && work->out->error == 0; i++) {
        const struct profile_node *node = profile_node_at(profile, i);
        if (node->weight_ns > 0 || work->counts[i] > 0)
            sample_put(work, node);
    }
}

static void sink_put(void *context, const char *bytes, size_t length)
{
    outfile_put(context, bytes, length);
}

int pprof_profile_write(const struct named_profile *named, const struct stack_builder *stacks,
                        const struct pprof_facts *facts, struct outfile *out, struct arena *scratch)
{
    struct writing work = {.named = named, .stacks = stacks, .out = out};
    struct arena_mark mark = arena_mark(scratch);
    int error = -ENOMEM;
    if (name_tree_make(&work.tree, named, scratch) && arrays_make(&work, scratch) &&
        counts_spread(&work, scratch))
        error = pprof_begin(&work.pprof, facts, (struct gzip_sink){sink_put, out}, scratch);
    if (error == 0) {
        regions_put(&work);
        frames_put(&work);
        samples_put(&work);
        pprof_end(&work.pprof);
    } else {
        out->error = error;
    }
    arena_release(scratch, mark);
    return out->error;
}
