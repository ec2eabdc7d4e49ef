/* Puts a sample's frames together. Runs in the helper. */
#include "stack_frames.h"

#include <errno.h>

#include "folded.h"
#include "record.h"
#include "text.h"

#define KNOWN_LOG 12u
#define HEADS_LOG 12u

/* What an address was found to be. */
struct code_frame {
    uint64_t ip; /* 0: nothing is kept here */
    uint32_t frame;
    bool ours; /* of selfsample itself */
};

/* A text, in a chain of those with the same hash. */
struct kept_text {
    char text[STACK_TEXT_BYTES];
    uint32_t next; /* index, plus 1; 0: the last */
};

int stack_builder_init(struct stack_builder *builder, struct modules *modules,
                       struct unwinder *unwinder, struct profile *profile,
                       enum config_threads threads, struct arena *arena)
{
    *builder = (struct stack_builder){
        .modules = modules,
        .unwinder = unwinder,
        .profile = profile,
        .threads = threads,
        .ips = arena_alloc_array(arena, UNWIND_FRAMES_MAX, sizeof(uint64_t)),
        .frames = arena_alloc_array(arena, STACK_FRAMES_MAX, sizeof(uint32_t)),
        .label_frames = arena_alloc_array(arena, LABEL_IDS, sizeof(uint32_t)),
        .known = arena_alloc_array(arena, 1u << KNOWN_LOG, sizeof(struct code_frame)),
        .text_heads = arena_alloc_array(arena, 1u << HEADS_LOG, sizeof(uint32_t)),
    };
    sequence_init(&builder->texts, arena, sizeof(struct kept_text));
    bool complete = builder->ips != NULL && builder->frames != NULL &&
                    builder->label_frames != NULL && builder->known != NULL &&
                    builder->text_heads != NULL;
    return complete ? 0 : -ENOMEM;
}

static uint32_t *text_head(const struct stack_builder *builder, const char *text)
{
    uint64_t hash = 0;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 0x9e3779b97f4a7c15u;
    return &builder->text_heads[hash >> (64 - HEADS_LOG)];
}

/* The index of a text, the same for the same text: threads that change their names back and forth
 * have no more frames than names. UINT32_MAX: no memory. */
static uint32_t text_index(struct stack_builder *builder, const char *text)
{
    uint32_t *head = text_head(builder, text);
    for (uint32_t link = *head; link != 0;) {
        const struct kept_text *at = sequence_at(&builder->texts, link - 1);
        if (text_equal(at->text, text))
            return link - 1;
        link = at->next;
    }
    struct kept_text *kept = sequence_append(&builder->texts);
    if (kept == NULL)
        return UINT32_MAX;
    struct text copy = text_over(kept->text, STACK_TEXT_BYTES);
    text_put(&copy, text);
    kept->next = *head;
    *head = builder->texts.count;
    return builder->texts.count - 1;
}

static uint32_t text_frame(struct stack_builder *builder, uint32_t kind, const char *text)
{
    uint32_t index = text_index(builder, text);
    return index == UINT32_MAX ? PROFILE_NONE : profile_frame(builder->profile, kind, index);
}

static uint32_t fixed_frame(struct stack_builder *builder, const char *text)
{
    return text_frame(builder, FRAME_OF_TEXT, text);
}

/* The thread's own frame, by its name of now. */
static uint32_t thread_frame(struct stack_builder *builder, struct thread *thread)
{
    bool by_tid = builder->threads == CONFIG_THREADS_TID;
    if (thread->text == UINT32_MAX) {
        char buffer[STACK_TEXT_BYTES];
        struct text text = text_over(buffer, sizeof buffer);
        folded_clean_name(&text, thread->name[0] != '\0' ? thread->name : "?");
        if (by_tid && thread->tid != 0) {
            text_put_char(&text, '/');
            text_put_u64(&text, (uint64_t)thread->tid);
        }
        thread->text = text_index(builder, buffer);
    }
    if (thread->text == UINT32_MAX)
        return PROFILE_NONE;
    uint64_t id = by_tid ? (uint64_t)thread->tid << 32 : 0;
    return profile_frame(builder->profile, FRAME_OF_THREAD, thread->text | id);
}

/* The frame of a label that is not LABEL_NONE. */
static uint32_t label_frame(struct stack_builder *builder, uint32_t label)
{
    if (builder->label_frames[label] != 0)
        return builder->label_frames[label] - 1;
    char buffer[STACK_TEXT_BYTES];
    struct text text = text_over(buffer, sizeof buffer);
    folded_clean_name(&text, label_text(builder->labels, label));
    uint32_t frame = text_frame(builder, FRAME_OF_LABEL, buffer);
    builder->label_frames[label] = frame + 1; /* of PROFILE_NONE: 0 */
    return frame;
}

/* What stands above a thread's functions. Returns how many frames. */
static size_t put_thread_frames(struct stack_builder *builder, struct thread *thread)
{
    size_t count = 0;
    if (builder->threads != CONFIG_THREADS_NONE)
        builder->frames[count++] = thread_frame(builder, thread);
    if (builder->labels != NULL && thread->label != LABEL_NONE)
        builder->frames[count++] = label_frame(builder, thread->label);
    return count;
}

/* The frame of code that no file holds, if it has a name by now. Whether that stays. */
static bool jit_frame_find(struct stack_builder *builder, struct code_frame *found)
{
    bool settled = true;
    uint32_t piece = CODE_NONE;
    if (builder->perf_map != NULL)
        piece = perf_map_find(builder->perf_map, found->ip, builder->now_ns, &settled);
    if (piece != CODE_NONE)
        found->frame = profile_frame(builder->profile, FRAME_OF_JIT, piece);
    return settled;
}

/* Looks up the frame of IP. False: what it is may change, and is not to be remembered. */
static bool code_frame_find(struct stack_builder *builder, struct code_frame *found)
{
    const struct region *region = modules_find(builder->modules, found->ip);
    const struct module *module =
        region != NULL ? modules_at(builder->modules, region->module) : NULL;
    found->ours = module != NULL && module->ours;
    found->frame = PROFILE_NONE;
    bool stays = (module != NULL && module->has_elf) || jit_frame_find(builder, found);
    if (found->frame != PROFILE_NONE)
        return stays;
    found->frame = region == NULL ? profile_frame(builder->profile, FRAME_OF_UNKNOWN, found->ip)
                                  : profile_frame(builder->profile, region->module,
                                                  region_link_address(region, found->ip));
    return stays && region != NULL && found->frame != PROFILE_NONE;
}

static inline struct code_frame code_frame_at(struct stack_builder *builder, uint64_t ip)
{
    struct code_frame found = {.ip = ip};
    struct code_frame *kept = &builder->known[ip * 0x9e3779b97f4a7c15u >> (64 - KNOWN_LOG)];
    if (kept->ip == ip && ip != 0)
        return *kept;
    if (code_frame_find(builder, &found))
        *kept = found;
    return found;
}

/* What was kept of addresses where other code is mapped, or named, now is void. */
static void forget_replaced(struct stack_builder *builder)
{
    uint64_t changes = builder->perf_map != NULL ? builder->perf_map->changes : 0;
    if (builder->seen_replaced == builder->modules->replaced && builder->seen_changes == changes)
        return;
    builder->seen_replaced = builder->modules->replaced;
    builder->seen_changes = changes;
    for (uint32_t i = 0; i < 1u << KNOWN_LOG; i++)
        builder->known[i].ip = 0;
}

/* The kernel copies without faults, so no further than to the first page that is not there: in a
 * large buffer, say, that its function has not filled. For the next copies it will be. */
static void fill_holes(const struct stack_builder *builder, const struct record *record)
{
    size_t real = record->sample.stack_bytes, asked = record->sample.stack_copy_bytes;
    if (real < asked)
        app_memory_bring_in(builder->modules->memory,
                            record->sample.registers[ARCH_PERF_INDEX_SP] + real, asked - real);
}

/* Unwinds and appends the user's part, root first. */
static size_t put_user_frames(struct stack_builder *builder, struct thread *thread,
                              const struct record *record, size_t count, enum unwind_end *end)
{
    uint32_t *frames = builder->frames;
    if (record->sample.registers == NULL || record->sample.stack_bytes == 0) {
        /* The old program's memory is gone already (execve), or the thread's (exit). */
        *end = UNWIND_ROOT;
        frames[count++] = fixed_frame(builder, "[exec]");
        return count;
    }
    struct unwind_sample sample = {.registers = record->sample.registers,
                                   .stack = record->sample.stack,
                                   .stack_bytes = record->sample.stack_bytes,
                                   .tid = thread->tid,
                                   .time_ns = record->time_ns,
                                   .is_newest = !ring_has_more(&thread->ring),
                                   .deep = &thread->deep};
    size_t ip_count = unwind_stack(builder->unwinder, &sample, builder->ips, end);
    if (*end == UNWIND_CUT)
        fill_holes(builder, record);
    if (*end != UNWIND_ROOT)
        frames[count++] = fixed_frame(builder, "[truncated]");
    forget_replaced(builder);
    while (ip_count-- > 0) {
        struct code_frame found = code_frame_at(builder, builder->ips[ip_count]);
        if (!found.ours)
            frames[count++] = found.frame;
    }
    return count;
}

/* The leaf's address is the sample's own. All others are where calls return to: behind a call that
 * never does, as do_exit, begins another function, so the call itself is counted. */
static size_t put_kernel_frames(struct stack_builder *builder, const struct record *record,
                                size_t count)
{
    size_t kernel_count = record->sample.kernel_ip_count;
    if (kernel_count > STACK_KERNEL_FRAMES_MAX)
        kernel_count = STACK_KERNEL_FRAMES_MAX;
    while (kernel_count-- > 0) {
        uint64_t address = record->sample.kernel_ips[kernel_count] - (kernel_count > 0 ? 1 : 0);
        builder->frames[count++] = profile_frame(builder->profile, FRAME_OF_KERNEL, address);
    }
    return count;
}

size_t stack_frames(struct stack_builder *builder, struct thread *thread,
                    const struct record *record, enum unwind_end *end)
{
    size_t count = put_thread_frames(builder, thread);
    builder->now_ns = record->time_ns;
    count = put_user_frames(builder, thread, record, count, end);
    return put_kernel_frames(builder, record, count);
}

uint32_t stack_frames_book(struct stack_builder *builder, struct thread *thread, const char *what,
                           uint64_t weight_ns)
{
    struct profile *profile = builder->profile;
    size_t count = put_thread_frames(builder, thread);
    builder->frames[count++] = fixed_frame(builder, what);
    uint32_t node = profile_node_for(profile, builder->frames, count);
    if (node != PROFILE_NONE)
        profile_top_up(profile, node, weight_ns);
    return node;
}

const char *stack_text(const struct stack_builder *builder, uint64_t address)
{
    uint32_t index = (uint32_t)address;
    if (index >= builder->texts.count)
        return "?";
    const struct kept_text *kept = sequence_at(&builder->texts, index);
    return kept->text;
}
