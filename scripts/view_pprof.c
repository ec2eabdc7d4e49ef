/*
 * `selfsample convert --to pprof`: by core's own writer. What a folded file does not tell,
 * addresses and files of code, is not in it: a location is a function, with those that were inlined
 * into it, one in another, as lines of its own.
 */
#include "view_convert.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "pprof.h"

struct printing {
    struct pprof pprof;
    const struct view_options *options;
    size_t roots;
    uint64_t period_ns;
    uint64_t cpu_ns, samples; /* so far */
    uint64_t *strings;        /* by depth: labels of the frames that are no functions */
    struct node **chains;     /* by depth: of those that are */
    uint64_t *path;           /* leaf first */
    size_t room;
    /* The functions at a place: one, and under it those that were inlined, each a node under its
     * caller's. SELF of side 0 is the location's number, once it is in the file. */
    struct stacks places;
    uint64_t locations; /* how many are in the file */
    long functions;
};

static void sink_put(void *context, const char *bytes, size_t length)
{
    fwrite(bytes, 1, length, context);
}

static void depth_reserve(struct printing *printing, size_t depth)
{
    if (depth < printing->room)
        return;
    size_t room = printing->room = 2 * depth + 64;
    printing->strings = memory_or_end(reallocarray(printing->strings, room, sizeof(uint64_t)));
    printing->chains = memory_or_end(reallocarray(printing->chains, room, sizeof(struct node *)));
    printing->path = memory_or_end(reallocarray(printing->path, room, sizeof(uint64_t)));
}

/* The place of NODE, a function. The first one behind the labels is inlined into nothing. */
static struct node *chain_of(struct printing *printing, const struct node *node)
{
    static const char mark[] = "_[i]";
    const struct name *name = node->name;
    size_t marked = sizeof mark - 1, length = name->length;
    struct node *caller = printing->places.root;
    if (node->depth > printing->roots + 1 && length > marked &&
        memcmp(name->text + length - marked, mark, marked) == 0 &&
        printing->chains[node->depth - 1]->depth < PPROF_LINES_MAX) {
        caller = printing->chains[node->depth - 1];
        length -= marked;
    }
    return stacks_child(&printing->places, caller,
                        stacks_name(&printing->places, name->text, length));
}

static uint64_t function_of(struct printing *printing, struct name *name)
{
    if (name->number < 0) {
        name->number = ++printing->functions;
        pprof_function(&printing->pprof, (uint64_t)name->number, name->text);
    }
    return (uint64_t)name->number;
}

/* The location of a place; it is in the file once. */
static uint64_t location_of(struct printing *printing, struct node *chain)
{
    uint64_t functions[PPROF_LINES_MAX];
    size_t count = 0;
    if (chain->self[0] != 0)
        return chain->self[0];
    for (const struct node *node = chain; node->depth > 0; node = node->parent)
        functions[count++] = function_of(printing, node->name);
    chain->self[0] = ++printing->locations;
    pprof_location(&printing->pprof, chain->self[0], 0, 0, functions, count);
    return chain->self[0];
}

/* What NODE is as a label: the thread, or all that stands in front of threads. */
static uint64_t label_string(struct printing *printing, const struct node *node)
{
    char *text = memory_or_end(strdup(node->name->text));
    bool is_thread = node->depth == printing->roots;
    while (!is_thread && (node = node->parent)->parent != NULL) {
        char *longer;
        if (asprintf(&longer, "%s;%s", node->name->text, text) < 0)
            memory_or_end(NULL);
        free(text);
        text = longer;
    }
    uint64_t string = pprof_string(&printing->pprof, text);
    free(text);
    return string;
}

static size_t labels_of(const struct printing *printing, const struct node *leaf,
                        struct pprof_label *labels)
{
    size_t count = 0, roots = printing->roots;
    size_t programs = roots < 2 ? 0 : leaf->depth < roots - 1 ? leaf->depth : roots - 1;
    if (programs > 0)
        labels[count++] =
            (struct pprof_label){.key = PPROF_PROGRAM, .string = printing->strings[programs]};
    if (roots >= 1 && leaf->depth >= roots)
        labels[count++] =
            (struct pprof_label){.key = PPROF_THREAD, .string = printing->strings[roots]};
    return count;
}

static void sample_put(struct printing *printing, const struct node *leaf)
{
    struct pprof_label labels[PPROF_LABELS_MAX];
    uint64_t count = leaf->self[0], samples = count, cpu_ns;
    bool is_us = printing->options->is_us;
    size_t frames = 0;
    if (__builtin_mul_overflow(count, is_us ? 1000 : printing->period_ns, &cpu_ns))
        view_fail("convert: more nanoseconds than 64 bits hold");
    printing->cpu_ns += cpu_ns;
    if (is_us) /* rounded so that the sum of them all is right */
        samples = (uint64_t)llround((double)printing->cpu_ns / (double)printing->period_ns) -
                  printing->samples;
    printing->samples += samples;
    for (size_t depth = leaf->depth; depth > printing->roots;) {
        printing->path[frames++] = location_of(printing, printing->chains[depth]);
        depth -= printing->chains[depth]->depth;
    }
    size_t label_count = labels_of(printing, leaf, labels);
    pprof_sample(&printing->pprof, printing->path, frames, samples, cpu_ns, labels, label_count);
}

void pprof_print(FILE *out, const struct stacks *stacks, const char *title,
                 const struct view_options *options, size_t roots)
{
    struct printing printing = {
        .options = options, .roots = roots, .period_ns = period_of_rate(options->rate)};
    const struct pprof_facts facts = {.period_ns = printing.period_ns, .comment = title};
    struct arena arena;
    arena_init(&arena, 0);
    stacks_open(&printing.places);
    if (pprof_begin(&printing.pprof, &facts, (struct gzip_sink){sink_put, out}, &arena) != 0)
        memory_or_end(NULL);
    for (const struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        depth_reserve(&printing, node->depth);
        if (node->depth <= roots)
            printing.strings[node->depth] = label_string(&printing, node);
        else
            printing.chains[node->depth] = chain_of(&printing, node);
        if (node->self[0] != 0)
            sample_put(&printing, node);
    }
    pprof_end(&printing.pprof);
    arena_destroy(&arena);
    free(printing.strings);
    free(printing.chains);
    free(printing.path);
}
