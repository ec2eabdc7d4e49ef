/*
 * `selfsample flamegraph`: one HTML page with all in it, the profile as one JSON object and the
 * code that draws it (scripts/web). The object:
 *
 *     title, unit ("samples" or "us"), rate (samples a second), roots (frames in front of
 *     functions), sampled (the rate that errors of each side go by), sides (names of the profile
 *     or, for a difference, of both), names, nodes
 *
 * nodes has, for each stack in the order of a walk from the root, the number of its name, how many
 * frames to go up from the one before to find its caller, and what it counts itself on each side.
 */
#include "views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_string(FILE *out, const char *key, const char *value)
{
    fprintf(out, "\"%s\":\"", key);
    json_print(out, value);
    fputs("\",\n", out);
}

/* What stands above the picture: a program, how many of them, or two. */
static void print_title(FILE *out, const struct view_options *options, char **files, size_t count)
{
    char *title = NULL, *first = view_program_of(options, files, 0),
         *second = view_program_of(options, files, count - 1);
    int printed = 0;
    if (options->title != NULL)
        title = strdup(options->title);
    else if (strcmp(first, second) == 0)
        title = strdup(first);
    else if (options->difference)
        printed = asprintf(&title, "%s \u2192 %s", first, second);
    else
        printed = asprintf(&title, "%zu profiles", count);
    print_string(out, "title", memory_or_end(printed < 0 ? NULL : title));
    free(first);
    free(second);
    free(title);
}

static void print_sides(FILE *out, char **files, size_t sides)
{
    fputs("\"sides\":[", out);
    for (size_t side = 0; side < sides; side++) {
        const char *slash = strrchr(files[side], '/');
        fputs(side ? ",\"" : "\"", out);
        json_print(out, slash ? slash + 1 : files[side]);
        fputs("\"", out);
    }
    fputs("],\n", out);
}

static void print_names(FILE *out, const struct stacks *stacks)
{
    fputs("\"names\":[", out);
    for (size_t i = 0; i < stacks->names_count; i++) {
        fputs(i ? ",\n\"" : "\n\"", out);
        json_print(out, stacks->names[i]->text);
        fputs("\"", out);
        stacks->names[i]->number = (long)i;
    }
    fputs("],\n", out);
}

/* Needs the numbers of names. */
static void print_nodes(FILE *out, const struct stacks *stacks, size_t sides)
{
    size_t depth_before = 0, printed = 0;
    bool counts = true;
    fputs("\"nodes\":[", out);
    progress_begin("writing", stacks->nodes);
    for (const struct node *node = stacks->root; (node = stacks_next(node, counts)) != NULL;) {
        counts = node->total[0] != 0 || node->total[1] != 0;
        if (!counts)
            continue;
        fprintf(out, "%s%ld,%zu", printed++ ? ",\n" : "\n", node->name->number,
                depth_before + 1 - node->depth);
        for (size_t side = 0; side < sides; side++)
            fprintf(out, ",%" PRIu64, node->self[side]);
        depth_before = node->depth;
        progress_step(printed);
    }
    fputs("]", out);
    progress_end();
}

static void print_page(FILE *out, const struct stacks *stacks, const struct view_options *options,
                       char **files, size_t count)
{
    const struct page page = page_find();
    size_t sides = options->difference ? SIDES : 1;
    size_t roots = options->roots + view_has_programs(options, count);
    fwrite(page.head, 1, page.head_bytes, out);
    fputs("{", out);
    print_title(out, options, files, count);
    fprintf(out, "\"unit\":\"%s\",\n\"rate\":%.17g,\n\"roots\":%zu,\n", unit_name(options),
            options->rate, roots);
    fprintf(out, "\"sampled\":[%.17g,%.17g],\n", side_rate(options, 0), side_rate(options, 1));
    print_sides(out, files, sides);
    print_names(out, stacks);
    print_nodes(out, stacks, sides);
    fputs("}\n", out);
    fwrite(page.tail, 1, page.tail_bytes, out);
}

static void judge(const struct view_options *options, size_t count)
{
    if (page_find().head == NULL)
        view_fail("flamegraph: %s", PAGE_IS_MISSING);
    if (options->difference && count != SIDES)
        view_fail("flamegraph --diff: two files are wanted, BEFORE and AFTER");
    if ((options->out == NULL || strcmp(options->out, "-") == 0) && isatty(STDOUT_FILENO))
        view_fail("flamegraph: the page is for a browser, not for a terminal: say -o page.html");
}

void view_flamegraph(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    judge(options, count);
    stacks_open(&stacks);
    if (options->difference) {
        view_read_sides(&stacks, files, count, options);
        view_sides_judge(&stacks, options);
    } else {
        view_read_programs(&stacks, files, count, options);
    }
    stacks_sort(&stacks);
    FILE *out = view_output_open(options, files, count);
    print_page(out, &stacks, options, files, count);
    view_output_close(out, options);
}
