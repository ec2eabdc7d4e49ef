/* What the views make of counts: sums of functions, shares, and how far chance may have moved
 * them. */
#include "views.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* A function of a stack that is being walked. */
struct function_walk {
    size_t roots;
};

/* Does NODE stand for a function? Frames at the root do not, but where no function follows the
 * last of them has to. */
static bool is_function(const struct node *node, size_t roots)
{
    return node->depth > roots;
}

static void function_enter(void *context, struct node *node)
{
    const struct function_walk *walk = context;
    struct name *name = node->name;
    bool is_one = is_function(node, walk->roots);
    for (int side = 0; side < SIDES; side++) {
        name->self[side] += node->self[side];
        if (!is_one)
            name->total[side] += node->self[side];
        else if (name->on_path == 0)
            name->total[side] += node->total[side];
    }
    name->on_path += is_one;
}

static void function_leave(void *context, struct node *node)
{
    const struct function_walk *walk = context;
    node->name->on_path -= is_function(node, walk->roots);
}

struct name **functions_count(const struct stacks *stacks, size_t roots, size_t *count)
{
    struct function_walk walk = {roots};
    struct name **functions = memory_or_end(calloc(stacks->names_count + 1, sizeof(struct name *)));
    stacks_walk(stacks, (struct stacks_visitor){function_enter, function_leave, &walk});
    *count = 0;
    for (size_t i = 0; i < stacks->names_count; i++)
        if (stacks->names[i]->total[0] != 0 || stacks->names[i]->total[1] != 0)
            functions[(*count)++] = stacks->names[i];
    return functions;
}

/* The name of NODE's function with that of THREAD in front. */
static struct name *thread_function(struct stacks *stacks, const struct node *thread,
                                    const struct node *node)
{
    char *text;
    int length = asprintf(&text, "%s: %s", thread->name->text, node->name->text);
    memory_or_end(length < 0 ? NULL : text);
    struct name *name = stacks_name(stacks, text, (size_t)length);
    free(text);
    return name;
}

void stacks_name_threads(struct stacks *by_thread, const struct stacks *stacks, size_t roots)
{
    struct node **path = NULL; /* of the copy, by depth */
    size_t room = 0;
    const struct node *thread = NULL;
    stacks_open(by_thread);
    for (const struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        if (node->depth + 1 > room) {
            room = 2 * node->depth + 64;
            path = memory_or_end(reallocarray(path, room, sizeof *path));
            path[0] = by_thread->root;
        }
        if (node->depth == roots)
            thread = node;
        struct name *name = node->depth > roots && thread != NULL
                                ? thread_function(by_thread, thread, node)
                                : stacks_name(by_thread, node->name->text, node->name->length);
        path[node->depth] = stacks_child(by_thread, path[node->depth - 1], name);
        for (int side = 0; side < SIDES; side++)
            stacks_add(by_thread, path[node->depth], side, node->self[side]);
    }
    free(path);
}

size_t thread_names_count(const struct stacks *stacks, size_t roots)
{
    size_t count = 0;
    for (const struct node *node = stacks->root; node != NULL;
         node = stacks_next(node, node->depth < roots))
        count += node->depth != 0 && (node->depth == roots || node->first_child == NULL);
    return count;
}

double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

double side_rate(const struct view_options *options, int side)
{
    return options->side_rates[side] != 0 ? options->side_rates[side] : options->rate;
}

double sample_weight(const struct view_options *options, int side)
{
    return (options->is_us ? 1e6 : options->rate) / side_rate(options, side);
}

double count_error_alone(const struct view_options *options, int side, uint64_t count)
{
    return sqrt((double)count * sample_weight(options, side));
}

double share_error(const struct view_options *options, int side, uint64_t count, uint64_t all)
{
    double p = percent(count, all) / 100;
    return all ? 100 * count_error_alone(options, side, count) * sqrt(1 - p) / (double)all : 0;
}

uint64_t period_of_rate(double rate)
{
    const double slack_ns = 1e-3; /* of a whole period that became a rate */
    return rate < 1e9 ? (uint64_t)(1e9 / rate + slack_ns) : 1;
}

double rate_of_period(uint64_t period_ns)
{
    double rate = 1e9 / (double)period_ns, whole = round(rate);
    return whole >= 1 && period_of_rate(whole) == period_ns ? whole : rate;
}

const char *unit_name(const struct view_options *options)
{
    return options->is_us ? "us" : "samples";
}
