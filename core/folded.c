/*
 * Folded stacks out of a profile. Runs in the helper, when the app has ended or at a checkpoint.
 * Never changes the profile, never recurses, never fails for want of memory.
 */
#include "folded.h"

#include <string.h>

#include "sort.h"

#define PATH_FRAMES 16384u /* of a stack that are collected in one walk from its leaf */

/* A program that recurses for ever has another deep stack in each sample. Once the file is as long
 * as this, of deeper stacks than that only the ends are written. */
#define WHOLE_BYTES  (32u * 1024 * 1024)
#define SHORT_FRAMES 1024u

struct folding {
    const struct named_profile *named;
    struct outfile *out;
    struct arena *scratch;
    struct name_tree *tree; /* NULL: nothing was merged, frames are the profile's own */
    uint32_t *heads;        /* by node, see heads_find; NULL: not known */

    uint64_t *total_ns;    /* by node of the merged tree: with all below it */
    uint32_t *first_child; /* behind the last node: the first root */
    uint32_t *next_sibling;
};

void folded_clean_name(struct text *text, const char *name)
{
    for (const char *c = name; *c != '\0'; c++) {
        bool control = (unsigned char)*c < 0x20 || *c == 0x7f;
        text_put_char(text, control ? '_' : *c == ';' ? ':' : *c);
    }
}

/* ---- one line ---- */

static void line_frame_put(const struct folding *folding, uint32_t frame)
{
    const char *text = folding->tree != NULL ? folding->tree->texts[frame]
                                             : name_source_text(folding->named->names, frame);
    outfile_put(folding->out, text, strlen(text));
}

/* The frames from depth FIRST + 1 to FIRST + COUNT of the stack that ends at NODE. */
static void path_collect(const struct profile *profile, const struct profile_node *node,
                         uint32_t first, uint32_t count, uint32_t *frames)
{
    for (; node->depth > first; node = profile_node_at(profile, node->parent)) {
        if (node->depth - first <= count)
            frames[node->depth - first - 1] = node->frame;
        if (node->parent == PROFILE_NONE)
            return;
    }
}

/* COUNT frames of the stack that ends at NODE, those above depth FIRST. A stack is known from its
 * leaf and written from its root. */
static void frames_put(const struct folding *folding, const struct profile *profile,
                       const struct profile_node *leaf, uint32_t first, uint32_t count)
{
    uint32_t frames[PATH_FRAMES];
    for (uint32_t end = first + count; first < end; first += PATH_FRAMES) {
        uint32_t part = end - first < PATH_FRAMES ? end - first : PATH_FRAMES;
        path_collect(profile, leaf, first, part, frames);
        for (uint32_t i = 0; i < part; i++) {
            if (first + i > 0)
                outfile_put(folding->out, ";", 1);
            line_frame_put(folding, frames[i]);
        }
    }
}

/* Notes for each node that is deep enough its ancestor at half of SHORT_FRAMES, where a line that
 * has the ends alone leaves off: to walk there from each leaf would take as many steps as there are
 * frames that are left out. */
static void heads_find(struct folding *folding, const struct profile *profile)
{
    folding->heads = NULL;
    if (profile->depth_max <= SHORT_FRAMES)
        return;
    uint32_t count = profile_node_count(profile);
    folding->heads = arena_alloc_array(folding->scratch, count, sizeof *folding->heads);
    for (uint32_t i = 0; folding->heads != NULL && i < count; i++) {
        const struct profile_node *node = profile_node_at(profile, i);
        if (node->depth == SHORT_FRAMES / 2)
            folding->heads[i] = i;
        else if (node->depth > SHORT_FRAMES / 2)
            folding->heads[i] = folding->heads[node->parent];
    }
}

static void line_put(const struct folding *folding, const struct profile *profile, uint32_t index,
                     uint64_t count)
{
    const struct profile_node *leaf = profile_node_at(profile, index), *head = leaf;
    if (leaf->depth <= SHORT_FRAMES || folding->out->bytes < WHOLE_BYTES) {
        frames_put(folding, profile, leaf, 0, leaf->depth);
    } else {
        if (folding->heads != NULL)
            head = profile_node_at(profile, folding->heads[index]);
        frames_put(folding, profile, head, 0, SHORT_FRAMES / 2);
        outfile_put(folding->out, ";" FOLDED_LEFT_OUT, sizeof FOLDED_LEFT_OUT);
        frames_put(folding, profile, leaf, leaf->depth - SHORT_FRAMES / 2, SHORT_FRAMES / 2);
    }
    char ending[32];
    struct text text = text_over(ending, sizeof ending);
    text_put_char(&text, ' ');
    text_put_u64(&text, count);
    text_put_char(&text, '\n');
    outfile_put(folding->out, ending, text.length);
}

/* Without memory: each node gets what it adds to the rounded sum of those before it. */
static void nodes_write(const struct folding *folding)
{
    const struct profile *profile = folding->named->profile;
    uint64_t sum_ns = 0, written = 0;
    for (uint32_t i = 0; i < profile_node_count(profile) && folding->out->error == 0; i++) {
        sum_ns += profile_node_at(profile, i)->weight_ns;
        uint64_t count = name_tree_rounded(sum_ns, folding->named->unit_ns) - written;
        if (count > 0)
            line_put(folding, profile, i, count);
        written += count;
    }
}

/* ---- order ---- */

static bool sibling_before(const void *context, uint32_t a, uint32_t b)
{
    const struct folding *folding = context;
    if (folding->total_ns[a] != folding->total_ns[b])
        return folding->total_ns[a] > folding->total_ns[b];
    return profile_node_at(&folding->tree->merged, a)->frame <
           profile_node_at(&folding->tree->merged, b)->frame;
}

/* Children come after their parents, so one pass from the end sums them up. */
static bool totals_sum(struct folding *folding)
{
    uint32_t count = profile_node_count(&folding->tree->merged);
    folding->total_ns = arena_alloc_array(folding->scratch, count, sizeof *folding->total_ns);
    if (folding->total_ns == NULL)
        return false;
    for (uint32_t i = count; i-- > 0;) {
        const struct profile_node *node = profile_node_at(&folding->tree->merged, i);
        folding->total_ns[i] += node->weight_ns;
        if (node->parent != PROFILE_NONE)
            folding->total_ns[node->parent] += folding->total_ns[i];
    }
    return true;
}

static void list_sort(struct folding *folding, uint32_t *list, uint32_t *room)
{
    uint32_t count = 0;
    for (uint32_t node = *list; node != PROFILE_NONE; node = folding->next_sibling[node])
        room[count++] = node;
    if (count < 2)
        return;
    sort_indices(room, count, sibling_before, folding);
    *list = room[0];
    for (uint32_t i = 0; i < count; i++)
        folding->next_sibling[room[i]] = i + 1 < count ? room[i + 1] : PROFILE_NONE;
}

static bool siblings_link(struct folding *folding)
{
    uint32_t count = profile_node_count(&folding->tree->merged);
    uint32_t *room = arena_alloc_array(folding->scratch, count, sizeof *room);
    uint32_t *first = arena_alloc_array(folding->scratch, (size_t)count + 1, sizeof *first);
    uint32_t *next = arena_alloc_array(folding->scratch, count, sizeof *next);
    if (room == NULL || first == NULL || next == NULL)
        return false;
    folding->first_child = first;
    folding->next_sibling = next;
    for (uint32_t i = 0; i <= count; i++)
        first[i] = PROFILE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t parent = profile_node_at(&folding->tree->merged, i)->parent;
        uint32_t *list = &first[parent == PROFILE_NONE ? count : parent];
        next[i] = *list;
        *list = i;
    }
    for (uint32_t i = 0; i <= count; i++)
        list_sort(folding, &first[i], room);
    return true;
}

/* Depth first; the way back up is in the nodes. */
static uint32_t node_after(const struct folding *folding, uint32_t node)
{
    if (folding->first_child[node] != PROFILE_NONE)
        return folding->first_child[node];
    while (node != PROFILE_NONE && folding->next_sibling[node] == PROFILE_NONE)
        node = profile_node_at(&folding->tree->merged, node)->parent;
    return node == PROFILE_NONE ? PROFILE_NONE : folding->next_sibling[node];
}

static void tree_write(const struct folding *folding)
{
    uint32_t node = folding->first_child[profile_node_count(&folding->tree->merged)];
    for (; node != PROFILE_NONE && folding->out->error == 0; node = node_after(folding, node))
        if (folding->tree->counts[node] > 0)
            line_put(folding, &folding->tree->merged, node, folding->tree->counts[node]);
}

uint64_t folded_unit_ns(enum config_unit unit, uint64_t period_ns)
{
    return unit == CONFIG_UNIT_US ? 1000 : period_ns > 0 ? period_ns : 1;
}

int folded_write(const struct named_profile *named, struct outfile *out, struct arena *scratch)
{
    struct name_tree tree;
    struct folding folding = {.named = named, .out = out, .scratch = scratch};
    struct arena_mark mark = arena_mark(scratch);
    if (name_tree_make(&tree, named, scratch))
        folding.tree = &tree;
    if (folding.tree != NULL && totals_sum(&folding) && siblings_link(&folding)) {
        heads_find(&folding, &tree.merged);
        tree_write(&folding);
    } else {
        folding.tree = NULL;
        heads_find(&folding, named->profile);
        nodes_write(&folding);
    }
    arena_release(scratch, mark);
    return out->error;
}
