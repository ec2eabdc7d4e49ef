/* Heap sort. Runs in the helper. Never allocates, never recurses. */
#include "sort.h"

struct sorting {
    uint32_t *items;
    bool (*before)(const void *context, uint32_t a, uint32_t b);
    const void *context;
};

/* Lets the item at ROOT sink until no child of it, within the first COUNT items, stands behind it.
 */
static void heap_sink(const struct sorting *sorting, size_t root, size_t count)
{
    uint32_t *items = sorting->items;
    uint32_t sinking = items[root];
    for (size_t child = 2 * root + 1; child < count; child = 2 * root + 1) {
        if (child + 1 < count && sorting->before(sorting->context, items[child], items[child + 1]))
            child++;
        if (!sorting->before(sorting->context, sinking, items[child]))
            break;
        items[root] = items[child];
        root = child;
    }
    items[root] = sinking;
}

void sort_indices(uint32_t *items, size_t count,
                  bool (*before)(const void *context, uint32_t a, uint32_t b), const void *context)
{
    const struct sorting sorting = {items, before, context};
    for (size_t root = count / 2; root-- > 0;)
        heap_sink(&sorting, root, count);
    for (size_t left = count; left > 1; left--) {
        uint32_t last = items[0];
        items[0] = items[left - 1];
        items[left - 1] = last;
        heap_sink(&sorting, 0, left - 1);
    }
}
