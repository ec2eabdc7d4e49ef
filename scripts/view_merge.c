/* `selfsample merge`: many profiles as one, each under a frame of its program's name. */
#include "views.h"

#include <stdlib.h>
#include <string.h>

#include "outpath.h"

static void name_check(const char *out)
{
    const size_t suffix = strlen(OUTPATH_PPROF), length = out != NULL ? strlen(out) : 0;
    if (length > suffix && strcmp(out + length - suffix, OUTPATH_PPROF) == 0)
        view_fail("%s: merge writes folded stacks; for pprof, merge into a %s file and "
                  "`selfsample convert --to pprof` that",
                  out, OUTPATH_FOLDED);
}

void view_merge(struct view_options *options, char **files, size_t count)
{
    struct stacks stacks;
    name_check(options->out);
    stacks_open(&stacks);
    for (size_t i = 0; i < count; i++) {
        char *program = options->root == NULL ? view_program_of(options, files, i) : NULL;
        const char *root = program != NULL ? program : options->root;
        view_read(&stacks, 0, files[i], root[0] != 0 ? root : NULL, options);
        free(program);
    }
    view_expect_counts(&stacks, 0, count == 1 ? files[0] : "these files", options);
    stacks_sort(&stacks);
    FILE *out = view_output_open(options, files, count);
    folded_print(out, &stacks, 1);
    bool has_root = options->root == NULL || options->root[0] != 0;
    view_facts_attach(out, options, options->roots + has_root);
    view_output_close(out, options);
}
