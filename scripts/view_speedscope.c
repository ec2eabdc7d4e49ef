/*
 * `selfsample convert --to speedscope`: one JSON object as speedscope documents it in
 * file-format-spec.ts, with a `sampled` profile for each thread. The order of its samples is that
 * of the tree, as a folded file knows of no time.
 */
#include "view_convert.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Where frames of NODE begin, which lies in a thread: the thread itself is one where there is
 * nothing else. */
static bool is_frame(const struct node *node, const struct node *leaf, size_t roots)
{
    return node->depth > roots || (node == leaf && leaf->depth <= roots);
}

/* Prints the frames of all samples, and numbers them. */
static void print_frames(FILE *out, const struct stacks *stacks, size_t roots)
{
    long count = 0;
    fputs("\"shared\":{\"frames\":[", out);
    for (const struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        struct name *name = node->name;
        if (name->number >= 0 || (node->depth <= roots && node->self[0] == 0))
            continue;
        fprintf(out, "%s\n{\"name\":\"", count ? "," : "");
        json_print(out, name->text);
        fputs("\"}", out);
        name->number = count++;
    }
    fputs("]}", out);
}

/* The nodes from the root to one; by depth. */
struct path {
    const struct node **nodes;
    size_t room;
};

static void path_set(struct path *path, const struct node *node)
{
    if (node->depth >= path->room) {
        path->room = 2 * node->depth + 62;
        path->nodes = memory_or_end(reallocarray(path->nodes, path->room, sizeof *path->nodes));
    }
    path->nodes[node->depth] = node;
}

static void print_sample(FILE *out, struct path *path, const struct node *leaf, size_t roots)
{
    bool first = true;
    fputc('[', out);
    for (size_t i = 1; i <= leaf->depth; i++)
        if (is_frame(path->nodes[i], leaf, roots)) {
            fprintf(out, "%s%ld", first ? "" : ",", path->nodes[i]->name->number);
            first = false;
        }
    fputc(']', out);
}

/* What follows NODE within the thread that begins at THREAD. */
static const struct node *next_within(const struct node *node, const struct node *thread,
                                      size_t roots)
{
    /* A thread above the depth of threads is a stack without functions: it is itself alone. */
    const struct node *next = thread->depth < roots ? NULL : stacks_next(node, true);
    return next != NULL && next->depth > thread->depth ? next : NULL;
}

static void print_thread_name(FILE *out, const struct path *path, const struct node *thread)
{
    for (size_t i = 1; i <= thread->depth; i++) {
        json_print(out, path->nodes[i]->name->text);
        if (i < thread->depth)
            fputs(": ", out);
    }
    if (thread->depth == 0)
        fputs("all threads", out);
}

static void print_thread(FILE *out, struct path *path, const struct node *thread,
                         const struct view_options *options, size_t roots)
{
    bool first = true;
    fputs("\n{\"type\":\"sampled\",\"name\":\"", out);
    print_thread_name(out, path, thread);
    uint64_t sum = thread->depth < roots ? thread->self[0] : thread->total[0];
    fprintf(out, "\",\"unit\":\"%s\",\"startValue\":0,\"endValue\":%" PRIu64 ",\n\"samples\":[",
            options->is_us ? "microseconds" : "none", sum);
    for (const struct node *node = thread; node != NULL; node = next_within(node, thread, roots)) {
        path_set(path, node);
        if (node->self[0] == 0)
            continue;
        fputs(first ? "" : ",", out);
        print_sample(out, path, node, roots);
        first = false;
    }
    fputs("],\n\"weights\":[", out);
    first = true;
    for (const struct node *node = thread; node != NULL; node = next_within(node, thread, roots)) {
        if (node->self[0] == 0)
            continue;
        fprintf(out, "%s%" PRIu64, first ? "" : ",", node->self[0]);
        first = false;
    }
    fputs("]}", out);
}

/* A node is where a thread begins at the depth of threads, and above it where a stack ends. */
static void print_threads(FILE *out, const struct stacks *stacks,
                          const struct view_options *options, size_t roots)
{
    struct path path = {0};
    bool first = true;
    fputs("\"profiles\":[", out);
    for (const struct node *node = stacks->root; node != NULL;
         node = stacks_next(node, node->depth < roots)) {
        path_set(&path, node);
        if (node->depth < roots ? node->self[0] == 0 : node->total[0] == 0)
            continue;
        fputs(first ? "" : ",", out);
        print_thread(out, &path, node, options, roots);
        first = false;
    }
    fputs("]", out);
    free(path.nodes);
}

void speedscope_print(FILE *out, const struct stacks *stacks, const char *title,
                      const struct view_options *options, size_t roots)
{
    fputs(
        "{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"version\":\"0.6.0\","
        "\"exporter\":\"selfsample " SELFSAMPLE_VERSION "\",\"name\":\"",
        out);
    json_print(out, title);
    fputs("\",\"activeProfileIndex\":0,\n", out);
    print_frames(out, stacks, roots);
    fputs(",\n", out);
    print_threads(out, stacks, options, roots);
    fputs("}\n", out);
}
