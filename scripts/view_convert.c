/* `selfsample convert`: the profile in another format. */
#include "view_convert.h"

#include <string.h>
#include <unistd.h>

#include "outpath.h"

/* The file, or how many. */
static const char *title_of(char **files, size_t count)
{
    static char text[64];
    const char *slash = strrchr(files[0], '/');
    snprintf(text, sizeof text, "%zu profiles", count);
    return count > 1 ? text : slash ? slash + 1 : files[0];
}

void view_convert(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    bool is_pprof = strcmp(options->format, "pprof") == 0;
    if (is_pprof && (options->out == NULL || strcmp(options->out, "-") == 0) &&
        isatty(STDOUT_FILENO))
        view_fail("convert --to pprof: not for a terminal: say -o FILE" OUTPATH_PPROF);
    stacks_open(&stacks);
    view_read_programs(&stacks, files, count, options);
    stacks_sort(&stacks);
    size_t roots = options->roots + view_has_programs(options, count);
    FILE *out = view_output_open(options, files, count);
    if (is_pprof)
        pprof_print(out, &stacks, title_of(files, count), options, roots);
    else if (strcmp(options->format, "folded") == 0) {
        folded_print(out, &stacks, 1);
        view_facts_attach(out, options, roots);
    } else
        speedscope_print(out, &stacks, title_of(files, count), options, roots);
    view_output_close(out, options);
}
