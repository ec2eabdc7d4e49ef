/*
 * `selfsample convert --to pprof`: by core's own writer. What a folded file does not tell,
 * addresses and files of code, is not in it: a location is a name.
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
    uint64_t *locations;      /* by depth: of those that are */
    uint64_t *path;           /* leaf first */
    size_t room;
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
    printing->locations = memory_or_end(reallocarray(printing->locations, room, sizeof(uint64_t)));
    printing->path = memory_or_end(reallocarray(printing->path, room, sizeof(uint64_t)));
}

/* The location of a function; it is in the file once. */
static uint64_t location_of(struct printing *printing, struct name *name, long *functions)
{
    if (name->number < 0) {
        name->number = ++*functions;
        pprof_function(&printing->pprof, (uint64_t)name->number, name->text);
        pprof_location(&printing->pprof, (uint64_t)name->number, 0, 0, (uint64_t)name->number);
    }
    return (uint64_t)name->number;
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
    for (size_t depth = leaf->depth; depth > printing->roots; depth--)
        printing->path[frames++] = printing->locations[depth];
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
    long functions = 0;
    arena_init(&arena, 0);
    if (pprof_begin(&printing.pprof, &facts, (struct gzip_sink){sink_put, out}, &arena) != 0)
        memory_or_end(NULL);
    for (const struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        depth_reserve(&printing, node->depth);
        if (node->depth <= roots)
            printing.strings[node->depth] = label_string(&printing, node);
        else
            printing.locations[node->depth] = location_of(&printing, node->name, &functions);
        if (node->self[0] != 0)
            sample_put(&printing, node);
    }
    pprof_end(&printing.pprof);
    arena_destroy(&arena);
    free(printing.strings);
    free(printing.locations);
    free(printing.path);
}
