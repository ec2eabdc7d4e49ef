/* Reads profiles into a tree of stacks, and says of a damaged folded file where it is damaged. */
#include "pprof_read.h"
#include "views.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "outpath.h"
#include "places.h"

enum {
    BUFFER_BYTES = 256 * 1024, /* at first */
    LINE_BYTES_MAX = 16 * 1024 * 1024,
};

/* A file that is being read, by whole lines. */
struct reader {
    const char *file; /* as it is told */
    int fd;
    uint64_t line; /* the number of the one being looked at */
    char *buffer;
    size_t room, begin, end; /* what is not yet looked at lies between */
    uint64_t bytes;          /* read so far */
    bool at_end;
};

_Noreturn static void damaged(const struct reader *reader, const char *what)
{
    view_fail("%s:%llu: %s", reader->file, (unsigned long long)reader->line, what);
}

static void reader_get(struct reader *reader)
{
    ssize_t got;
    do
        got = read(reader->fd, reader->buffer + reader->end, reader->room - reader->end);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        view_fail("%s: %s", reader->file, strerror(errno));
    reader->at_end = got == 0;
    reader->end += (size_t)got;
    reader->bytes += (size_t)got;
    progress_step(reader->bytes);
}

static void reader_grow(struct reader *reader)
{
    reader->room *= 2;
    reader->buffer = memory_or_end(realloc(reader->buffer, reader->room));
}

/* Reads on, into a larger buffer if this one is full of one line. */
static void reader_fill(struct reader *reader)
{
    if (reader->begin > 0) {
        memmove(reader->buffer, reader->buffer + reader->begin, reader->end - reader->begin);
        reader->end -= reader->begin;
        reader->begin = 0;
    }
    if (reader->end == reader->room) {
        if (reader->room >= LINE_BYTES_MAX)
            damaged(reader, "not a folded profile: a line of more than 16 MB");
        reader_grow(reader);
    }
    reader_get(reader);
}

/* The next line, with its newline, NULL at the end. It is valid until the next call. */
static char *reader_line(struct reader *reader, size_t *length)
{
    size_t looked_at = 0;
    reader->line++;
    for (;;) {
        char *line = reader->buffer + reader->begin;
        size_t there = reader->end - reader->begin;
        char *newline = memchr(line + looked_at, '\n', there - looked_at);
        if (newline != NULL) {
            *length = (size_t)(newline + 1 - line);
            reader->begin += *length;
            return line;
        }
        if (reader->at_end && there == 0)
            return NULL;
        if (memchr(line + looked_at, 0, there - looked_at) != NULL)
            damaged(reader, "not a folded profile: a NUL byte");
        if (reader->at_end)
            damaged(reader, "the file ends within this line");
        looked_at = there;
        reader_fill(reader);
    }
}

/* The count at the end of LINE, which ends in a newline. Cuts it off. */
static uint64_t count_cut(const struct reader *reader, char *line, size_t *length)
{
    size_t end = *length - 1, begin = end;
    uint64_t count = 0;
    if (memchr(line, 0, end) != NULL)
        damaged(reader, "not a folded profile: a NUL byte");
    while (begin > 0 && isdigit((unsigned char)line[begin - 1]))
        begin--;
    if (begin == end || begin == 0 || line[begin - 1] != ' ')
        damaged(reader, "not a folded line: no whole number behind a space at its end");
    for (size_t i = begin; i < end; i++)
        if (__builtin_mul_overflow(count, 10, &count) ||
            __builtin_add_overflow(count, (uint64_t)(line[i] - '0'), &count))
            damaged(reader, "the count does not fit into 64 bits");
    *length = begin - 1;
    line[*length] = 0;
    return count;
}

/* The length of the frame that begins here; where another follows, *NEXT is that, else NULL. */
static size_t frame_length(const struct reader *reader, const char *frame, const char *end,
                           const char **next)
{
    const char *semicolon = memchr(frame, ';', (size_t)(end - frame));
    size_t length = (size_t)((semicolon ? semicolon : end) - frame);
    if (length == 0)
        damaged(reader, "not a folded line: a frame without a name");
    *next = semicolon ? semicolon + 1 : NULL;
    return length;
}

/* Is STACK one of a thread that is asked for? */
static bool thread_is_wanted(const struct reader *reader, const char *stack, const char *end,
                             const struct view_options *options)
{
    const char *frame = stack;
    for (size_t i = 1; frame != NULL && options->thread != NULL; i++) {
        const char *next;
        size_t length = frame_length(reader, frame, end, &next);
        if (i == options->roots) {
            char *thread = memory_or_end(strndup(frame, length));
            bool matches = fnmatch(options->thread, thread, 0) == 0;
            free(thread);
            return matches;
        }
        frame = next;
    }
    return options->thread == NULL;
}

bool view_leaves_out(const struct view_options *options, size_t frame, bool is_last)
{
    return options->merge_threads && frame == options->roots && !is_last;
}

static struct node *stack_find(struct stacks *stacks, const struct reader *reader,
                               const char *stack, const char *end, struct node *node,
                               const struct view_options *options)
{
    const char *next;
    size_t number = 1;
    for (const char *frame = stack; frame != NULL; frame = next, number++) {
        size_t length = frame_length(reader, frame, end, &next);
        if (view_leaves_out(options, number, next == NULL))
            continue;
        node = stacks_child(stacks, node, stacks_name(stacks, frame, length));
    }
    return node;
}

static void reader_open(struct reader *reader, const char *file)
{
    bool is_stdin = strcmp(file, "-") == 0;
    *reader = (struct reader){.file = is_stdin ? "stdin" : file, .room = BUFFER_BYTES};
    reader->fd = is_stdin ? STDIN_FILENO : open(file, O_RDONLY | O_CLOEXEC);
    if (reader->fd < 0)
        view_fail("%s: %s", file, strerror(errno));
    reader->buffer = memory_or_end(malloc(reader->room));
    struct stat status;
    bool is_sized = fstat(reader->fd, &status) == 0 && S_ISREG(status.st_mode);
    progress_begin("reading", is_sized ? (uint64_t)status.st_size : 0);
}

/* Does the file begin as gzip's do? */
static bool is_packed(struct reader *reader)
{
    while (reader->end < 2 && !reader->at_end)
        reader_get(reader);
    return reader->end >= 2 && memcmp(reader->buffer, "\x1f\x8b", 2) == 0;
}

/* What lies beside profiles is easily named with them. */
static void expect_profile(const struct reader *reader)
{
    static const char page[] = "<!DOCTYPE html";
    const size_t length = strlen(reader->file), suffix = strlen(PLACES_SUFFIX);
    if (reader->end >= sizeof page - 1 && strncasecmp(reader->buffer, page, sizeof page - 1) == 0)
        view_fail("%s: a page, not a profile; name the " OUTPATH_FOLDED " files alone",
                  reader->file);
    if (length > suffix && strcmp(reader->file + length - suffix, PLACES_SUFFIX) == 0)
        view_fail("%s: the places of a profile, for `selfsample inline`; name the " OUTPATH_FOLDED
                  " files alone",
                  reader->file);
}

static void packed_read(struct stacks *stacks, int side, struct node *base, struct reader *reader,
                        struct view_options *options)
{
    while (!reader->at_end) {
        if (reader->end >= PPROF_BYTES_MAX)
            view_fail("%s: more than 512 MB", reader->file);
        if (reader->end == reader->room)
            reader_grow(reader);
        reader_get(reader);
    }
    const struct pprof_bytes bytes = {reader->file, reader->buffer, reader->end};
    pprof_read(stacks, side, base, &bytes, options);
}

static void folded_read(struct stacks *stacks, int side, struct node *base, struct reader *reader,
                        struct view_options *options, struct scale scale)
{
    char *line;
    size_t length;
    options->rate_is_known = true;
    while ((line = reader_line(reader, &length)) != NULL) {
        uint64_t count = count_cut(reader, line, &length);
        if (!thread_is_wanted(reader, line, line + length, options))
            continue;
        struct node *node = stack_find(stacks, reader, line, line + length, base, options);
        if (!scale_count(&scale, &count) || !stacks_add(stacks, node, side, count))
            damaged(reader, "from here on the counts add up to more than 64 bits hold");
    }
    if (reader->line == 1)
        view_fail("%s:1: the file is empty: no profile", reader->file);
}

void view_read(struct stacks *stacks, int side, const char *file, const char *root,
               struct view_options *options)
{
    struct reader reader;
    struct node *base = stacks->root;
    reader_open(&reader, file);
    if (root != NULL)
        base = stacks_child(stacks, base, stacks_name(stacks, root, strlen(root)));
    bool packed = is_packed(&reader);
    expect_profile(&reader);
    if (packed)
        packed_read(stacks, side, base, &reader, options);
    else
        folded_read(stacks, side, base, &reader, options, view_facts_scale(options, side, file));
    progress_end();
    if (reader.fd != STDIN_FILENO)
        close(reader.fd);
    free(reader.buffer);
}

void view_expect_counts(const struct stacks *stacks, int side, const char *file,
                        const struct view_options *options)
{
    if (stacks->root->total[side] != 0)
        return;
    if (options->thread != NULL)
        view_fail("%s: no samples of a thread '%s'", file, options->thread);
    view_fail("%s: all counts are 0", file);
}

void view_read_all(struct stacks *stacks, char **files, size_t count, struct view_options *options)
{
    for (size_t i = 0; i < count; i++)
        view_read(stacks, 0, files[i], NULL, options);
    view_expect_counts(stacks, 0, count == 1 ? files[0] : "these files", options);
}

bool view_has_programs(const struct view_options *options, size_t count)
{
    return count > 1 && !options->sum && !options->difference;
}

/* Stacks that were read without the frames of threads have one less in front of functions. */
static void roots_settle(struct view_options *options)
{
    options->roots -= options->merge_threads;
}

void view_read_programs(struct stacks *stacks, char **files, size_t count,
                        struct view_options *options)
{
    for (size_t i = 0; i < count; i++) {
        char *program =
            view_has_programs(options, count) ? view_program_of(options, files, i) : NULL;
        view_read(stacks, 0, files[i], program, options);
        free(program);
    }
    view_expect_counts(stacks, 0, count == 1 ? files[0] : "these files", options);
    roots_settle(options);
}

void view_read_sides(struct stacks *stacks, char **files, size_t count,
                     struct view_options *options)
{
    for (size_t side = 0; side < count; side++) {
        view_read(stacks, (int)side, files[side], NULL, options);
        view_expect_counts(stacks, (int)side, files[side], options);
    }
    roots_settle(options);
}

/* Cuts a last part of digits alone off, behind a dot. Returns the number; -1: there is none. */
static long number_cut(char *name)
{
    char *dot = strrchr(name, '.'), *end;
    if (dot == NULL || dot == name || !isdigit((unsigned char)dot[1]))
        return -1;
    long number = strtol(dot + 1, &end, 10);
    if (*end != 0)
        return -1;
    *dot = 0;
    return number;
}

/* In selfsample.PROGRAM.PID.N.folded, N stands where the name was taken. A version number in the
 * program's name looks the same; N is small, and process ids are not. */
static void pid_cut(char *name)
{
    char *whole = memory_or_end(strdup(name));
    long last = number_cut(name);
    size_t length = strlen(name);
    long before = last >= 0 ? number_cut(name) : -1;
    if (before >= 0 && before <= last) {
        memcpy(name, whole, length);
        name[length] = 0;
    }
    free(whole);
}

static char *program_of_name(const char *file)
{
    static const char prefix[] = "selfsample.";
    static const char *const suffixes[] = {OUTPATH_FOLDED, OUTPATH_PPROF};
    if (strcmp(file, "-") == 0)
        return memory_or_end(strdup("stdin"));
    const char *slash = strrchr(file, '/');
    char *name = memory_or_end(strdup(slash ? slash + 1 : file));
    for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
        size_t length = strlen(name), cut = strlen(suffixes[i]);
        if (length > cut && strcmp(name + length - cut, suffixes[i]) == 0)
            name[length - cut] = 0;
    }
    if (strncmp(name, prefix, sizeof prefix - 1) == 0 && name[sizeof prefix - 1] != 0) {
        memmove(name, name + sizeof prefix - 1, strlen(name + sizeof prefix - 1) + 1);
        pid_cut(name);
    }
    return name;
}

char *view_program_of(const struct view_options *options, char **files, size_t index)
{
    const char *told = options->programs != NULL ? options->programs[index] : "";
    char *name = told[0] != 0 ? memory_or_end(strdup(told)) : program_of_name(files[index]);
    for (char *c = name; *c != 0; c++)
        if (*c == ';')
            *c = ':';
        else if ((unsigned char)*c < ' ' || *c == 127)
            *c = '_';
    return name;
}
