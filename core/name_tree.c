/* Merges a profile by names. Runs in the helper. Never changes the profile, never recurses. */
#include "name_tree.h"

#include "sort.h"

const char *name_source_text(struct name_source source, uint32_t frame)
{
    const char *name = source.frame_name(source.context, frame);
    return name != NULL && *name != '\0' ? name : "[unknown]";
}

uint64_t name_tree_rounded(uint64_t weight_ns, uint64_t unit_ns)
{
    uint64_t remainder = weight_ns % unit_ns;
    return weight_ns / unit_ns + (remainder >= unit_ns - remainder);
}

/* ---- names ---- */

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

static bool text_before(const void *context, uint32_t a, uint32_t b)
{
    const char *const *texts = context;
    return text_compare(texts[a], texts[b]) < 0;
}

static bool names_number(struct name_tree *tree, const struct named_profile *named,
                         struct arena *arena)
{
    uint32_t count = profile_frame_count(named->profile);
    const char **frame_texts = arena_alloc_array(arena, count, sizeof *frame_texts);
    uint32_t *order = arena_alloc_array(arena, count, sizeof *order);
    tree->texts = arena_alloc_array(arena, count, sizeof *tree->texts);
    tree->numbers = arena_alloc_array(arena, count, sizeof *tree->numbers);
    if (frame_texts == NULL || order == NULL || tree->texts == NULL || tree->numbers == NULL)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        frame_texts[i] = name_source_text(named->names, i);
        order[i] = i;
    }
    sort_indices(order, count, text_before, frame_texts);
    uint32_t number = 0;
    for (uint32_t i = 0; i < count; i++) {
        number += i > 0 && text_before(frame_texts, order[i - 1], order[i]);
        tree->numbers[order[i]] = number;
        tree->texts[number] = frame_texts[order[i]];
    }
    tree->names = count > 0 ? number + 1 : 0;
    return true;
}

/* ---- merging ---- */

/* Calls among functions without names tell nothing: they are one frame. */
static bool is_repeated(const struct name_tree *tree, uint32_t parent, uint32_t number)
{
    return parent != PROFILE_NONE && profile_node_at(&tree->merged, parent)->frame == number &&
           text_compare(tree->texts[number], NAMELESS_CODE) == 0;
}

static bool nodes_merge(struct name_tree *tree, const struct profile *profile, struct arena *arena)
{
    uint32_t count = profile_node_count(profile);
    tree->nodes = arena_alloc_array(arena, count, sizeof *tree->nodes);
    if (tree->nodes == NULL)
        return false;
    profile_init(&tree->merged, arena);
    for (uint32_t i = 0; i < count; i++) {
        const struct profile_node *node = profile_node_at(profile, i);
        uint32_t parent = node->parent == PROFILE_NONE ? PROFILE_NONE : tree->nodes[node->parent];
        uint32_t number = tree->numbers[node->frame];
        tree->nodes[i] = is_repeated(tree, parent, number)
                             ? parent
                             : profile_child(&tree->merged, parent, number);
        if (tree->nodes[i] == PROFILE_NONE)
            return false;
        profile_charge(&tree->merged, tree->nodes[i], node->samples, node->weight_ns);
    }
    return true;
}

/* ---- counts ---- */

static bool owed_before(const void *context, uint32_t a, uint32_t b)
{
    const int64_t *owed_ns = context;
    return owed_ns[a] > owed_ns[b] || (owed_ns[a] == owed_ns[b] && a < b);
}

static void count_change(struct name_tree *tree, uint32_t node, int64_t change, uint64_t unit_ns)
{
    tree->counts[node] += (uint64_t)change;
    tree->owed_ns[node] -= change * (int64_t)unit_ns;
}

/* Each node's share rounded down; what that leaves out, and was owed before, is owed. Returns the
 * sum of what is owed. */
static int64_t counts_floor(struct name_tree *tree, const struct named_profile *named)
{
    const uint64_t unit_ns = named->unit_ns;
    int64_t sum_ns = 0;
    for (uint32_t i = 0; named->owed_ns != NULL && i < profile_node_count(named->profile); i++)
        tree->owed_ns[tree->nodes[i]] += named->owed_ns[i];
    for (uint32_t i = 0; i < profile_node_count(&tree->merged); i++) {
        uint64_t weight_ns = profile_node_at(&tree->merged, i)->weight_ns;
        tree->counts[i] = weight_ns / unit_ns;
        tree->owed_ns[i] += (int64_t)(weight_ns % unit_ns);
        if (tree->owed_ns[i] >= (int64_t)unit_ns)
            count_change(tree, i, 1, unit_ns);
        else if (tree->owed_ns[i] < 0 && tree->counts[i] > 0)
            count_change(tree, i, -1, unit_ns);
        sum_ns += tree->owed_ns[i];
    }
    return sum_ns;
}

/* SURPLUS units that were given too many, because some nodes are ahead, are taken back where least
 * is owed: one from each, then whatever there is. */
static void counts_take_back(struct name_tree *tree, const uint32_t *order, uint32_t count,
                             uint64_t surplus, uint64_t unit_ns)
{
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = count; i-- > 0 && surplus > 0;) {
            uint64_t most = round == 0 ? 1 : surplus;
            uint64_t had = tree->counts[order[i]];
            uint64_t taken = had < most ? had : most;
            count_change(tree, order[i], -(int64_t)taken, unit_ns);
            surplus -= taken;
        }
    }
}

static bool counts_round(struct name_tree *tree, const struct named_profile *named,
                         struct arena *arena)
{
    uint32_t count = profile_node_count(&tree->merged);
    uint32_t *order = arena_alloc_array(arena, count, sizeof *order);
    tree->counts = arena_alloc_array(arena, count, sizeof *tree->counts);
    tree->owed_ns = arena_alloc_array(arena, count, sizeof *tree->owed_ns);
    if (order == NULL || tree->counts == NULL || tree->owed_ns == NULL)
        return false;
    int64_t half_ns = (int64_t)(named->unit_ns / 2 + named->unit_ns % 2);
    int64_t left_ns = counts_floor(tree, named);
    for (uint32_t i = 0; i < count; i++)
        order[i] = i;
    sort_indices(order, count, owed_before, tree->owed_ns);
    for (uint32_t i = 0; i < count && left_ns >= half_ns && tree->owed_ns[order[i]] > 0; i++) {
        count_change(tree, order[i], 1, named->unit_ns);
        left_ns -= (int64_t)named->unit_ns;
    }
    if (left_ns < -half_ns)
        counts_take_back(tree, order, count, name_tree_rounded((uint64_t)-left_ns, named->unit_ns),
                         named->unit_ns);
    return true;
}

/* What is owed to a merged node is kept with the first of those that it is made of: later profiles
 * have that one too, and it will be merged into a node of the same name. */
static void owed_return(const struct name_tree *tree, const struct named_profile *named)
{
    for (uint32_t i = 0; named->owed_ns != NULL && i < profile_node_count(named->profile); i++) {
        named->owed_ns[i] = tree->owed_ns[tree->nodes[i]];
        tree->owed_ns[tree->nodes[i]] = 0;
    }
}

bool name_tree_make(struct name_tree *tree, const struct named_profile *named, struct arena *arena)
{
    *tree = (struct name_tree){0};
    if (!names_number(tree, named, arena) || !nodes_merge(tree, named->profile, arena) ||
        !counts_round(tree, named, arena))
        return false;
    owed_return(tree, named);
    return true;
}
