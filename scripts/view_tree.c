/* `selfsample tree`: who calls whom, and the time of each. */
#include "views.h"

enum {
    COLUMNS_BEFORE = 21,
    LEVEL_COLUMNS = 11, /* of a number of a level, of 8 digits, with its brackets */
    NAME_COLUMNS = 8,   /* at least */
};

struct printing {
    const struct view_options *options;
    uint64_t all;
    size_t width, indent_max;
};

static void print_node(const struct printing *printing, const struct node *node)
{
    size_t indent = node->depth - 1, room = printing->width - COLUMNS_BEFORE;
    printf("%6.2f %5.2f %6.2f  ", percent(node->total[0], printing->all),
           share_error(printing->options, 0, node->total[0], printing->all),
           percent(node->self[0], printing->all));
    if (indent <= printing->indent_max) {
        printf("%*s", (int)indent, "");
        room -= indent;
    } else {
        /* Deeper than can be shown so: the level is told instead. */
        room -= printing->indent_max + 3 + table_digits(node->depth);
        printf("%*s[%zu] ", (int)printing->indent_max, "", node->depth);
    }
    table_name(stdout, node->name->text, room, printing->options);
}

void view_tree(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    stacks_open(&stacks);
    view_read_all(&stacks, files, count, options);
    stacks_sort(&stacks);
    struct printing printing = {options, stacks.root->total[0], table_width(), 0};
    size_t spare = printing.width - COLUMNS_BEFORE - LEVEL_COLUMNS - NAME_COLUMNS;
    printing.indent_max = spare < printing.width / 3 ? spare : printing.width / 3;
    printf("%llu %s; from %g %% on\ntotal%%    +-  self%%  call\n",
           (unsigned long long)printing.all, unit_name(options), 100 * options->cut);
    bool shown = true;
    for (const struct node *node = stacks.root; (node = stacks_next(node, shown)) != NULL;) {
        shown = (double)node->total[0] >= options->cut * (double)printing.all && node->total[0] > 0;
        if (shown)
            print_node(&printing, node);
    }
    if (options->is_us)
        printf("+- if %g samples a second\n", side_rate(options, 0));
}
