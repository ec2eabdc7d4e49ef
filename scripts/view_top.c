/* `selfsample top`: the functions that the time went into. */
#include "views.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_ROOM = 24 }; /* with less than this the counts are left out */

static int by_self(const void *left, const void *right)
{
    const struct name *a = *(const struct name *const *)left;
    const struct name *b = *(const struct name *const *)right;
    if (a->self[0] != b->self[0])
        return a->self[0] < b->self[0] ? 1 : -1;
    if (a->total[0] != b->total[0])
        return a->total[0] < b->total[0] ? 1 : -1;
    return strcmp(a->text, b->text);
}

static int by_total(const void *left, const void *right)
{
    const struct name *a = *(const struct name *const *)left;
    const struct name *b = *(const struct name *const *)right;
    if (a->total[0] != b->total[0])
        return a->total[0] < b->total[0] ? 1 : -1;
    return by_self(left, right);
}

struct layout {
    uint64_t all;
    int digits; /* of the counts; 0: they are left out */
    size_t room;
};

static struct layout layout_of(uint64_t all, const struct view_options *options)
{
    const size_t shares = 27; /* two of them, their errors, and what stands before the name */
    struct layout layout = {.all = all, .digits = (int)table_digits(all)};
    size_t width = table_width();
    if (layout.digits < 5)
        layout.digits = 5;
    size_t counts = 2 * ((size_t)layout.digits + 1);
    if (!options->wide && width < shares + counts + NAME_ROOM) {
        layout.digits = 0;
        counts = 0;
    }
    layout.room = width > shares + counts + 8 ? width - shares - counts : 8;
    return layout;
}

static void print_counts(const struct layout *layout, uint64_t self, uint64_t total)
{
    if (layout->digits != 0)
        printf(" %*" PRIu64 " %*" PRIu64, layout->digits, self, layout->digits, total);
}

static void print_heading(const struct layout *layout)
{
    printf(" self%%    +- total%%    +-");
    if (layout->digits != 0)
        printf(" %*s %*s", layout->digits, "self", layout->digits, "total");
    printf("  function\n");
}

static void print_row(const struct layout *layout, const struct name *function,
                      const struct view_options *options)
{
    uint64_t self = function->self[0], total = function->total[0];
    printf("%6.2f %5.2f %6.2f %5.2f", percent(self, layout->all),
           share_error(options, 0, self, layout->all), percent(total, layout->all),
           share_error(options, 0, total, layout->all));
    print_counts(layout, self, total);
    printf("  ");
    table_name(stdout, function->text, layout->room, options);
}

/* What AFTER has more than BEFORE, of ALL that there is more: as counts are rounded, each may be
 * one less than before, or one more than all. */
static uint64_t more_of(uint64_t before, uint64_t after, uint64_t all)
{
    uint64_t more = after > before ? after - before : 0;
    return more < all ? more : all;
}

/* Leaves of the counts of each function those of side 1 that side 0 has not. Returns their sum. */
static uint64_t counts_subtract(const struct stacks *stacks, struct name **functions, size_t count)
{
    uint64_t all = stacks->root->total[1] - stacks->root->total[0];
    for (size_t i = 0; i < count; i++) {
        struct name *name = functions[i];
        name->total[0] = more_of(name->total[0], name->total[1], all);
        name->self[0] = more_of(name->self[0], name->self[1], name->total[0]);
    }
    return all;
}

size_t top_print(const struct stacks *stacks, bool only_new, const struct view_options *options)
{
    struct stacks by_thread;
    size_t count, shown = 0;
    if (options->by_thread) {
        stacks_name_threads(&by_thread, stacks, options->roots);
        stacks = &by_thread;
    }
    struct name **functions = functions_count(stacks, options->roots, &count);
    uint64_t all = only_new ? counts_subtract(stacks, functions, count) : stacks->root->total[0];
    qsort(functions, count, sizeof *functions, options->sort == SORT_TOTAL ? by_total : by_self);
    while (count > 0 && functions[count - 1]->self[0] == 0 && functions[count - 1]->total[0] == 0)
        count--;
    struct layout layout = layout_of(all, options);
    print_heading(&layout);
    for (; shown < count && (options->rows == 0 || shown < options->rows); shown++)
        print_row(&layout, functions[shown], options);
    if (options->is_us)
        printf("+- if %g samples a second\n", side_rate(options, 0));
    free(functions);
    return count - shown;
}

/* What the table is about. */
static void print_subject(const struct stacks *stacks, size_t files,
                          const struct view_options *options)
{
    size_t names = options->roots ? thread_names_count(stacks, options->roots) : 0;
    printf("%" PRIu64 " %s", stacks->root->total[0], unit_name(options));
    if (names != 0)
        printf(", %zu thread name%s", names, names == 1 ? "" : "s");
    printf(", %zu file%s", files, files == 1 ? "" : "s");
    printf("\n");
}

void view_top(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    stacks_open(&stacks);
    view_read_all(&stacks, files, count, options);
    print_subject(&stacks, count, options);
    size_t more = top_print(&stacks, false, options);
    if (more != 0)
        printf("and %zu more (--rows 0 shows all)\n", more);
}
