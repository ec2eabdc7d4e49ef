/* `selfsample diff`: what became more and what less from one profile to another. */
#include "command.h"
#include "views.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CHANCE_ERRORS = 2,         /* changes of fewer standard errors are marked */
    COMMON_PERCENT_LEAST = 50, /* with less in common names, there is a line about it */
};

/* A function whose part has changed. Counts, or points of percent where normalised. */
struct change {
    const struct name *name;
    uint64_t before, after;
    double change, error;
};

/* One sample at the least: where a few samples have none of a function, or nothing else, more of
 * them might have some. */
static double side_error(const struct node *all, const struct view_options *options, int side,
                         uint64_t count)
{
    double one = sample_weight(options, side);
    if (!options->normalised)
        return fmax(count_error_alone(options, side, count), one);
    uint64_t whole = all->total[side];
    return whole ? fmax(share_error(options, side, count, whole), 100 * one / (double)whole) : 0;
}

static void change_judge(struct change *change, const struct node *all,
                         const struct view_options *options)
{
    if (options->normalised) {
        change->change =
            percent(change->after, all->total[1]) - percent(change->before, all->total[0]);
    } else {
        bool fell = change->after < change->before;
        uint64_t size = fell ? change->before - change->after : change->after - change->before;
        change->change = fell ? -(double)size : (double)size;
    }
    change->error = hypot(side_error(all, options, 0, change->before),
                          side_error(all, options, 1, change->after));
}

static int by_size(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    double size_a = fabs(a->change), size_b = fabs(b->change);
    if (size_a != size_b)
        return size_a < size_b ? 1 : -1;
    return strcmp(a->name->text, b->name->text);
}

/* The functions that have changed, the largest change first; to be freed. */
static struct change *changes_of(const struct stacks *stacks, const struct view_options *options,
                                 size_t *count)
{
    size_t functions_there;
    struct name **functions = functions_count(stacks, options->roots, &functions_there);
    struct change *changes = memory_or_end(calloc(functions_there + 1, sizeof *changes));
    bool self = options->sort == SORT_SELF;
    *count = 0;
    for (size_t i = 0; i < functions_there; i++) {
        const struct name *name = functions[i];
        struct change change = {.name = name,
                                .before = self ? name->self[0] : name->total[0],
                                .after = self ? name->self[1] : name->total[1]};
        change_judge(&change, stacks->root, options);
        if (change.change != 0)
            changes[(*count)++] = change;
    }
    free(functions);
    qsort(changes, *count, sizeof *changes, by_size);
    return changes;
}

static bool may_be_chance(const struct change *change)
{
    return fabs(change->change) < CHANCE_ERRORS * change->error;
}

static void print_change(FILE *out, const struct change *change, const struct node *all, int digits,
                         const struct view_options *options)
{
    if (options->normalised)
        fprintf(out, "%*.2f %*.2f %+*.2f %*.2f", digits, percent(change->before, all->total[0]),
                digits, percent(change->after, all->total[1]), digits + 1, change->change, digits,
                change->error);
    else
        fprintf(out, "%*" PRIu64 " %*" PRIu64 " %+*.0f %*.0f", digits, change->before, digits,
                change->after, digits + 1, change->change, digits, change->error);
    fputs(may_be_chance(change) ? " ~ " : "   ", out);
}

static void print_table(FILE *out, const struct stacks *stacks, const struct view_options *options)
{
    size_t count, width = table_width();
    struct change *changes = changes_of(stacks, options, &count);
    uint64_t most = stacks->root->total[0] > stacks->root->total[1] ? stacks->root->total[0]
                                                                    : stacks->root->total[1];
    size_t digits = options->normalised ? 6 : table_digits(most);
    digits = digits < 6 ? 6 : digits;
    size_t before_name = 4 * digits + 7;
    const char *what = options->sort == SORT_SELF ? "self" : "total";
    fprintf(out, "%s in %s: %" PRIu64 " before, %" PRIu64 " after\n", what,
            options->normalised ? "% of all" : unit_name(options), stacks->root->total[0],
            stacks->root->total[1]);
    fprintf(out, "%*s %*s %*s %*s   function\n", (int)digits, "before", (int)digits, "after",
            (int)digits + 1, "change", (int)digits, "+-");
    size_t rows = options->rows != 0 && options->rows < count ? options->rows : count;
    bool marked = false;
    for (size_t i = 0; i < rows; i++) {
        print_change(out, &changes[i], stacks->root, (int)digits, options);
        table_name(out, changes[i].name->text, width > before_name + 8 ? width - before_name : 8,
                   options);
        marked |= may_be_chance(&changes[i]);
    }
    if (marked)
        fprintf(out, "~: it may be chance\n");
    if (rows < count)
        fprintf(out, "and %zu more (--rows 0 shows all)\n", count - rows);
    free(changes);
}

/*
 * Scales the counts of side 0 so that their sum is that of side 1. What rounding takes from one
 * stack the ones behind it get, so the sum is exact and no count is off by one or more.
 */
static void sides_normalise(const struct stacks *stacks)
{
    uint64_t all_before = stacks->root->total[0], all_after = stacks->root->total[1];
    uint64_t sum = 0, given = 0;
    for (struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        sum += node->self[0];
        uint64_t due = (uint64_t)((unsigned __int128)sum * all_after / all_before);
        node->self[0] = due - given;
        given = due;
    }
}

/* What of both profiles, in percent, is in frames at DEPTH that both have. */
static double common_percent(const struct stacks *stacks, size_t depth)
{
    const uint64_t *all = stacks->root->total;
    double common = 0;
    bool descend = true;
    for (const struct node *node = stacks->root; (node = stacks_next(node, descend)) != NULL;) {
        bool is_common = node->total[0] != 0 && node->total[1] != 0;
        descend = is_common && node->depth < depth;
        if (is_common && node->depth == depth)
            common += percent(node->total[0], all[0]) + percent(node->total[1], all[1]);
    }
    return common / SIDES;
}

void view_sides_judge(const struct stacks *stacks, const struct view_options *options)
{
    for (size_t depth = 1; depth <= options->roots; depth++) {
        double common = common_percent(stacks, depth);
        if (common >= COMMON_PERCENT_LEAST)
            continue;
        if (depth == options->roots)
            tell("the threads have other names in the other profile (%.0f %% are in common ones), "
                 "so that their stacks are all new or gone; --merge-threads compares them",
                 common);
        else
            tell("the programs have other names in the other profile (%.0f %% are in common ones), "
                 "so that their stacks are all new or gone; `selfsample merge --root NAME` gives "
                 "both profiles one",
                 common);
        return;
    }
}

void view_diff(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    stacks_open(&stacks);
    view_read_sides(&stacks, files, count, options);
    if (options->folded)
        view_sides_judge(&stacks, options);
    FILE *out = view_output_open(options, files, count);
    stacks_sort(&stacks);
    if (!options->folded) {
        print_table(out, &stacks, options);
    } else {
        if (options->normalised)
            sides_normalise(&stacks);
        folded_print(out, &stacks, SIDES);
    }
    view_output_close(out, options);
}
