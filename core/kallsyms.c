/* Reads kernel symbols as a stream of text. Runs in the helper. */
#include "kallsyms.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "arena.h"
#include "sys.h"

#define READ_BYTES (64u * 1024)
#define NAME_BYTES 240u /* a longer name is cut */

/* The last symbol that begins at or before a request, but not before the request in front of it. */
struct kernel_symbol {
    uint64_t address; /* 0: none */
    uint32_t length;
    char name[NAME_BYTES];
};

struct kernel_search {
    const struct symbol_request *requests;
    struct kernel_symbol *found; /* one a request */
    size_t count;
};

struct kernel_line {
    uint64_t address;
    const char *name;
    size_t name_length;
};

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Splits a line; false where it is none of a text symbol. */
static bool line_read(struct kernel_line *line, const char *text, size_t length)
{
    size_t at = 0;
    line->address = 0;
    for (; at < length && hex_digit(text[at]) >= 0; at++)
        line->address = line->address << 4 | (uint64_t)hex_digit(text[at]);
    if (line->address == 0 || length - at < 4 || text[at] != ' ' || text[at + 2] != ' ')
        return false;
    char type = text[at + 1];
    if (type != 't' && type != 'T' && type != 'w' && type != 'W')
        return false;
    line->name = text + at + 3;
    line->name_length = 0;
    for (at += 3; at < length && text[at] != '\t' && text[at] != ' '; at++)
        line->name_length++;
    return line->name_length > 0;
}

/* Of aliases the one with fewer leading underscores, else the first in the file. */
static bool is_better_alias(const struct kernel_symbol *have, const struct kernel_line *line)
{
    size_t its = 0, mine = 0;
    while (its < have->length && have->name[its] == '_')
        its++;
    while (mine < line->name_length && line->name[mine] == '_')
        mine++;
    return mine < its;
}

static void line_take(struct kernel_search *search, const char *text, size_t length)
{
    struct kernel_line line;
    if (!line_read(&line, text, length))
        return;
    size_t first = symbol_requests_from(search->requests, search->count, line.address);
    if (first == search->count ||
        search->requests[first].vaddr - line.address >= KALLSYMS_FUNCTION_BYTES)
        return;
    struct kernel_symbol *found = &search->found[first];
    if (line.address < found->address ||
        (line.address == found->address && !is_better_alias(found, &line)))
        return;
    found->address = line.address;
    found->length = (uint32_t)(line.name_length < NAME_BYTES ? line.name_length : NAME_BYTES);
    memcpy(found->name, line.name, found->length);
}

/* Takes all whole lines of the buffer; how many bytes of a last, unfinished one are left over. */
static size_t lines_take(struct kernel_search *search, char *buffer, size_t bytes)
{
    size_t start = 0;
    for (size_t at = 0; at < bytes; at++) {
        if (buffer[at] == '\n') {
            line_take(search, buffer + start, at - start);
            start = at + 1;
        }
    }
    if (start == 0 && bytes == READ_BYTES)
        return 0; /* a line that long is none */
    memmove(buffer, buffer + start, bytes - start);
    return bytes - start;
}

static int file_take(struct kernel_search *search, int fd, char *buffer)
{
    size_t kept = 0;
    long got;
    while ((got = sys_read(fd, buffer + kept, READ_BYTES - kept)) > 0)
        kept = lines_take(search, buffer, kept + (size_t)got);
    return (int)got;
}

/* Tells the requests. A request with nothing of its own is in the symbol of the one before it. */
static int found_apply(const struct kernel_search *search, struct symbol_request *requests,
                       struct arena *names)
{
    const struct kernel_symbol *symbol = NULL;
    const char *name = NULL;
    size_t named = 0;
    for (size_t i = 0; i < search->count; i++) {
        if (search->found[i].address != 0) {
            symbol = &search->found[i];
            name = arena_copy_text(names, symbol->name, symbol->length);
            if (name == NULL)
                return -ENOMEM;
        }
        if (symbol == NULL || requests[i].name != NULL ||
            requests[i].vaddr - symbol->address >= KALLSYMS_FUNCTION_BYTES)
            continue;
        requests[i].name = name;
        requests[i].start_vaddr = symbol->address;
        named++;
    }
    return named > 0 ? 0 : -ENOENT;
}

int kallsyms_resolve(const char *path, struct symbol_request *requests, size_t count,
                     struct arena *names, struct arena *scratch)
{
    struct arena_mark mark = arena_mark(scratch);
    struct kernel_search search = {.requests = requests, .count = count};
    search.found = arena_alloc_array(scratch, count, sizeof *search.found);
    char *buffer = arena_alloc(scratch, READ_BYTES);
    int error = -ENOMEM;
    if (search.found != NULL && buffer != NULL) {
        int fd = sys_open(path, O_RDONLY, 0);
        error = fd < 0 ? fd : file_take(&search, fd, buffer);
        if (fd >= 0)
            sys_close(fd);
        if (error == 0)
            error = found_apply(&search, requests, names);
    }
    arena_release(scratch, mark);
    return error;
}
