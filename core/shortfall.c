/* Lines about what a profile lacks. Runs in the helper; no system calls. */
#include "shortfall.h"

#include "name_tree.h"

static void begin_line(struct text *lines)
{
    text_put(lines, lines->length != 0 ? "\nselfsample: " : "selfsample: ");
}

void shortfall_put_labels(struct text *lines, const struct labels *labels)
{
    uint32_t refused = __atomic_load_n(&labels->refused, __ATOMIC_RELAXED);
    uint32_t missed = __atomic_load_n(&labels->missed, __ATOMIC_RELAXED);
    if (refused != 0) {
        begin_line(lines);
        text_put(lines, "more than ");
        text_put_u64(lines, LABELS_MAX);
        text_put(lines, " different labels: those beyond are [other labels]");
    }
    if (missed != 0) {
        begin_line(lines);
        text_put_u64(lines, missed);
        text_put(lines,
                 " changes of labels came too fast to be taken: some samples may be under the "
                 "label before or after");
    }
}

void shortfall_put_signals(struct text *lines, const struct session *session)
{
    if (!session->traits.by_timer ||
        !__atomic_load_n(&session->timers.has_no_signal, __ATOMIC_RELAXED))
        return;
    begin_line(lines);
    text_put(lines, "the program handles all signals that timers could send; from then on nothing "
                    "was sampled");
}

void shortfall_put_code_names(struct text *lines, const struct perf_map *map)
{
    if (map->refusal == NULL)
        return;
    begin_line(lines);
    text_put(lines, map->path);
    text_put(lines, ": ");
    text_put(lines, map->refusal);
    text_put(lines, "; code that it should name is shown as " NAMELESS_CODE);
}
