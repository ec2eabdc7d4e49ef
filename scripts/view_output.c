/* Where the views are written to, characters, and folded stacks as text again. */
#include "views.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "utf8.h"

/* Is the file at PATH, or the input, this one? */
static bool is_same(const char *path, const struct stat *file)
{
    struct stat status;
    int result = strcmp(path, "-") == 0 ? fstat(STDIN_FILENO, &status) : stat(path, &status);
    return result == 0 && S_ISREG(status.st_mode) && status.st_dev == file->st_dev &&
           status.st_ino == file->st_ino;
}

FILE *view_output_open(const struct view_options *options, char **files, size_t count)
{
    struct stat there;
    if (options->out == NULL || strcmp(options->out, "-") == 0)
        return stdout;
    for (size_t i = 0; i < count && stat(options->out, &there) == 0; i++)
        if (is_same(files[i], &there))
            view_fail("%s: it is one of the profiles that were read, and is left as it is; name "
                      "another file",
                      options->out);
    FILE *out = fopen(options->out, "we");
    if (out == NULL)
        view_fail("%s: %s", options->out, strerror(errno));
    return out;
}

int view_stream_error(FILE *out)
{
    if (fflush(out) != 0)
        return errno;
    if (!ferror(out))
        return 0;
    /* It was long ago, and what refused that refuses the next byte as well. */
    clearerr(out);
    return fputc('\n', out) == EOF || fflush(out) != 0 ? errno : EIO;
}

void view_output_close(FILE *out, const struct view_options *options)
{
    int error = view_stream_error(out);
    if (out != stdout && fclose(out) != 0 && error == 0)
        error = errno;
    if (error != 0)
        view_fail("%s: not all was written: %s", out == stdout ? "stdout" : options->out,
                  strerror(error));
}

void json_print(FILE *out, const char *string)
{
    for (const unsigned char *c = (const unsigned char *)string; *c != 0;) {
        size_t bytes = utf8_bytes(c);
        if (bytes == 0)
            fputs("\\ufffd", out);
        else if (*c < ' ' || *c == '"' || *c == '\\' || *c == '<')
            fprintf(out, "\\u%04x", *c);
        else
            fwrite(c, 1, bytes, out);
        c += bytes ? bytes : 1;
    }
}

static bool has_counts(const struct node *node, int sides)
{
    bool has = false;
    for (int side = 0; side < sides; side++)
        has |= node->self[side] != 0;
    return has;
}

void folded_print(FILE *out, const struct stacks *stacks, int sides)
{
    const struct name **path = NULL; /* to the node, by depth */
    size_t room = 0;
    for (const struct node *node = stacks->root; (node = stacks_next(node, true)) != NULL;) {
        if (node->depth > room) {
            room = 2 * node->depth + 62;
            path = memory_or_end(reallocarray(path, room, sizeof *path));
        }
        path[node->depth - 1] = node->name;
        if (!has_counts(node, sides))
            continue;
        for (size_t i = 0; i < node->depth; i++) {
            fwrite(path[i]->text, 1, path[i]->length, out);
            fputc(i + 1 < node->depth ? ';' : ' ', out);
        }
        for (int side = 0; side < sides; side++)
            fprintf(out, "%" PRIu64 "%c", node->self[side], side + 1 < sides ? ' ' : '\n');
    }
    free(path);
}
