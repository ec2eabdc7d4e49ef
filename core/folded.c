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
    const struct profile *profile; /* as sampled */
    struct folded_names names;
    uint64_t unit_ns;
    struct outfile *out;
    struct arena *scratch;

    /* Names get numbers, equal for equal text, in the order of the text. */
    const char **frame_texts; /* by frame of the profile */
    uint32_t *frame_numbers;  /* likewise */
    const char *
        *number_texts; /* by number; NULL: nothing was merged, frames are the profile's own */

    struct profile merged; /* its frames are numbers of names */
    uint64_t *total_ns;    /* from here on by node of `merged`: with all below it */
    uint64_t *counts;      /* in units */
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

static const char *frame_text(const struct folding *folding, uint32_t frame)
{
    const char *name = folding->names.frame_name(folding->names.context, frame);
    return name != NULL && *name != '\0' ? name : "[unknown]";
}

/* ---- one line ---- */

static void line_frame_put(const struct folding *folding, uint32_t frame)
{
    const char **texts = folding->number_texts;
    const char *text = texts != NULL ? texts[frame] : frame_text(folding, frame);
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

static void line_put(const struct folding *folding, const struct profile *profile, uint32_t index,
                     uint64_t count)
{
    const struct profile_node *leaf = profile_node_at(profile, index);
    if (leaf->depth <= SHORT_FRAMES || folding->out->bytes < WHOLE_BYTES) {
        frames_put(folding, profile, leaf, 0, leaf->depth);
    } else {
        frames_put(folding, profile, leaf, 0, SHORT_FRAMES / 2);
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

static uint64_t rounded(uint64_t weight_ns, uint64_t unit_ns)
{
    uint64_t remainder = weight_ns % unit_ns;
    return weight_ns / unit_ns + (remainder >= unit_ns - remainder);
}

/* Without memory: each node gets what it adds to the rounded sum of those before it. */
static void nodes_write(const struct folding *folding)
{
    const struct profile *profile = folding->profile;
    uint64_t sum_ns = 0, written = 0;
    for (uint32_t i = 0; i < profile_node_count(profile) && folding->out->error == 0; i++) {
        sum_ns += profile_node_at(profile, i)->weight_ns;
        uint64_t count = rounded(sum_ns, folding->unit_ns) - written;
        if (count > 0)
            line_put(folding, profile, i, count);
        written += count;
    }
}

/* ---- merging by name ---- */

static uint32_t *indices_make(struct arena *scratch, uint32_t count)
{
    uint32_t *indices = arena_alloc_array(scratch, count, sizeof *indices);
    for (uint32_t i = 0; indices != NULL && i < count; i++)
        indices[i] = i;
    return indices;
}

static int text_compare(const char *a, const char *b)
{
    if (a == b)
        return 0;
    while (*a == *b && *a != '\0') {
        a++;
        b++;
    }
    return (unsigned char)*a - (unsigned char)*b;
}

static bool frame_before(const void *context, uint32_t a, uint32_t b)
{
    const struct folding *folding = context;
    return text_compare(folding->frame_texts[a], folding->frame_texts[b]) < 0;
}

static bool names_number(struct folding *folding)
{
    uint32_t count = profile_frame_count(folding->profile);
    folding->frame_texts = arena_alloc_array(folding->scratch, count, sizeof *folding->frame_texts);
    folding->number_texts =
        arena_alloc_array(folding->scratch, count, sizeof *folding->number_texts);
    folding->frame_numbers =
        arena_alloc_array(folding->scratch, count, sizeof *folding->frame_numbers);
    uint32_t *order = indices_make(folding->scratch, count);
    if (folding->frame_texts == NULL || folding->number_texts == NULL ||
        folding->frame_numbers == NULL || order == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++)
        folding->frame_texts[i] = frame_text(folding, i);
    sort_indices(order, count, frame_before, folding);
    uint32_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number += i > 0 && frame_before(folding, order[i - 1], order[i]);
        folding->frame_numbers[order[i]] = number;
        folding->number_texts[number] = folding->frame_texts[order[i]];
    }
    return true;
}

/* Calls among functions without names tell nothing: they are one frame. */
static bool is_repeated(const struct folding *folding, uint32_t parent, uint32_t number)
{
    return parent != PROFILE_NONE && profile_node_at(&folding->merged, parent)->frame == number &&
           text_compare(folding->number_texts[number], FOLDED_NAMELESS) == 0;
}

static bool tree_merge(struct folding *folding)
{
    const struct profile *profile = folding->profile;
    uint32_t count = profile_node_count(profile);
    uint32_t *merged = arena_alloc_array(folding->scratch, count, sizeof *merged);
    if (merged == NULL)
        return false;
    profile_init(&folding->merged, folding->scratch);
    for (uint32_t i = 0; i < count; i++) {
        const struct profile_node *node = profile_node_at(profile, i);
        uint32_t parent = node->parent == PROFILE_NONE ? PROFILE_NONE : merged[node->parent];
        uint32_t number = folding->frame_numbers[node->frame];
        merged[i] = is_repeated(folding, parent, number)
                        ? parent
                        : profile_child(&folding->merged, parent, number);
        if (merged[i] == PROFILE_NONE)
            return false;
        profile_charge(&folding->merged, merged[i], node->samples, node->weight_ns);
    }
    return true;
}

/* ---- counts ---- */

static bool remainder_before(const void *context, uint32_t a, uint32_t b)
{
    const uint64_t *remainders_ns = context;
    return remainders_ns[a] > remainders_ns[b] || (remainders_ns[a] == remainders_ns[b] && a < b);
}

static bool counts_round(struct folding *folding)
{
    uint32_t count = profile_node_count(&folding->merged), candidates = 0;
    uint64_t *remainders_ns = arena_alloc_array(folding->scratch, count, sizeof *remainders_ns);
    uint32_t *order = arena_alloc_array(folding->scratch, count, sizeof *order);
    folding->counts = arena_alloc_array(folding->scratch, count, sizeof *folding->counts);
    if (remainders_ns == NULL || order == NULL || folding->counts == NULL)
        return false;
    uint64_t sum_ns = 0, given = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t weight_ns = profile_node_at(&folding->merged, i)->weight_ns;
        folding->counts[i] = weight_ns / folding->unit_ns;
        remainders_ns[i] = weight_ns % folding->unit_ns;
        if (remainders_ns[i] > 0)
            order[candidates++] = i;
        given += folding->counts[i];
        sum_ns += weight_ns;
    }
    sort_indices(order, candidates, remainder_before, remainders_ns);
    uint64_t left = rounded(sum_ns, folding->unit_ns) - given;
    for (uint32_t i = 0; i < candidates && i < left; i++)
        folding->counts[order[i]]++;
    return true;
}

/* ---- order ---- */

static bool sibling_before(const void *context, uint32_t a, uint32_t b)
{
    const struct folding *folding = context;
    if (folding->total_ns[a] != folding->total_ns[b])
        return folding->total_ns[a] > folding->total_ns[b];
    return profile_node_at(&folding->merged, a)->frame <
           profile_node_at(&folding->merged, b)->frame;
}

/* Children come after their parents, so one pass from the end sums them up. */
static bool totals_sum(struct folding *folding)
{
    uint32_t count = profile_node_count(&folding->merged);
    folding->total_ns = arena_alloc_array(folding->scratch, count, sizeof *folding->total_ns);
    if (folding->total_ns == NULL)
        return false;
    for (uint32_t i = count; i-- > 0;) {
        const struct profile_node *node = profile_node_at(&folding->merged, i);
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
    uint32_t count = profile_node_count(&folding->merged);
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
        uint32_t parent = profile_node_at(&folding->merged, i)->parent;
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
        node = profile_node_at(&folding->merged, node)->parent;
    return node == PROFILE_NONE ? PROFILE_NONE : folding->next_sibling[node];
}

static void tree_write(const struct folding *folding)
{
    uint32_t node = folding->first_child[profile_node_count(&folding->merged)];
    for (; node != PROFILE_NONE && folding->out->error == 0; node = node_after(folding, node))
        if (folding->counts[node] > 0)
            line_put(folding, &folding->merged, node, folding->counts[node]);
}

uint64_t folded_unit_ns(enum config_unit unit, uint64_t period_ns)
{
    return unit == CONFIG_UNIT_US ? 1000 : period_ns > 0 ? period_ns : 1;
}

int folded_write(const struct profile *profile, struct folded_names names, enum config_unit unit,
                 uint64_t period_ns, struct outfile *out, struct arena *scratch)
{
    struct folding folding = {.profile = profile, .names = names, .out = out, .scratch = scratch};
    folding.unit_ns = folded_unit_ns(unit, period_ns);
    struct arena_mark mark = arena_mark(scratch);
    if (names_number(&folding) && tree_merge(&folding) && counts_round(&folding) &&
        totals_sum(&folding) && siblings_link(&folding)) {
        tree_write(&folding);
    } else {
        folding.number_texts = NULL;
        nodes_write(&folding);
    }
    arena_release(scratch, mark);
    return out->error;
}
