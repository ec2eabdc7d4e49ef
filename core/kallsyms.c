/* Reads kernel symbols as a stream of text. Runs in the helper. */
#include "kallsyms.h"

#include <errno.h>
#include <string.h>

#include "arena.h"
#include "sys.h"

#define PADDING_PREFIX "__pfx_"

int kallsyms_open(struct kallsyms *kallsyms, const char *path)
{
    int fd = sys_open(path, O_RDONLY, 0);
    kallsyms->fd = fd;
    kallsyms->hidden = false;
    kallsyms->at = kallsyms->bytes = 0;
    return fd < 0 ? fd : 0;
}

void kallsyms_close(struct kallsyms *kallsyms)
{
    sys_close(kallsyms->fd);
    kallsyms->fd = -1;
}

long kallsyms_fill(struct kallsyms *kallsyms)
{
    if (kallsyms->hidden)
        return 0;
    size_t kept = kallsyms->bytes - kallsyms->at;
    if (kept == KALLSYMS_BUFFER_BYTES)
        kept = 0; /* a line that long is none */
    memmove(kallsyms->buffer, kallsyms->buffer + kallsyms->at, kept);
    kallsyms->at = 0;
    kallsyms->bytes = kept;
    long got = sys_read(kallsyms->fd, kallsyms->buffer + kept, KALLSYMS_BUFFER_BYTES - kept);
    if (got > 0)
        kallsyms->bytes += (size_t)got;
    return got;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool is_function(char type)
{
    return type == 't' || type == 'T' || type == 'w' || type == 'W';
}

static bool is_padding(const struct kallsyms_symbol *symbol)
{
    return symbol->name_length >= sizeof PADDING_PREFIX &&
           memcmp(symbol->name, PADDING_PREFIX, sizeof PADDING_PREFIX - 1) == 0;
}

/* Splits a line; false where it is none of a function. */
static bool line_read(struct kallsyms_symbol *symbol, const char *text, size_t length)
{
    size_t at = 0;
    symbol->address = 0;
    for (int digit; at < length && (digit = hex_digit(text[at])) >= 0; at++)
        symbol->address = symbol->address << 4 | (uint64_t)digit;
    if (at == 0 || length - at < 4 || text[at] != ' ' || text[at + 2] != ' ' ||
        !is_function(text[at + 1]))
        return false;
    at += 3;
    symbol->name = text + at;
    while (at < length && text[at] != '\t' && text[at] != ' ')
        at++;
    symbol->name_length = (size_t)(text + at - symbol->name);
    if (symbol->name_length == 0 || is_padding(symbol))
        return false;
    if (symbol->name_length > KALLSYMS_NAME_BYTES)
        symbol->name_length = KALLSYMS_NAME_BYTES;
    at += at < length;
    symbol->owner = text + at;
    symbol->owner_length = length - at;
    return true;
}

bool kallsyms_next(struct kallsyms *kallsyms, struct kallsyms_symbol *symbol)
{
    while (!kallsyms->hidden) {
        size_t start = kallsyms->at, end = start;
        while (end < kallsyms->bytes && kallsyms->buffer[end] != '\n')
            end++;
        if (end == kallsyms->bytes)
            return false;
        kallsyms->at = end + 1;
        if (!line_read(symbol, kallsyms->buffer + start, end - start))
            continue;
        /* Per-CPU data may well be at 0, a function never is. */
        kallsyms->hidden = symbol->address == 0;
        return !kallsyms->hidden;
    }
    return false;
}

static size_t underscores(const char *name, size_t length)
{
    size_t count = 0;
    while (count < length && name[count] == '_')
        count++;
    return count;
}

bool kallsyms_name_preferred(const char *one, size_t one_length, const char *other,
                             size_t other_length)
{
    size_t mine = underscores(one, one_length), its = underscores(other, other_length);
    return mine != its ? mine < its : one_length < other_length;
}

/* The last function that begins at or before a request, but not before the request in front of it.
 */
struct kernel_symbol {
    uint64_t address; /* 0: none */
    uint32_t length;
    char name[KALLSYMS_NAME_BYTES];
};

struct kernel_search {
    const struct symbol_request *requests;
    struct kernel_symbol *found; /* one a request */
    size_t count;
};

static void symbol_take(struct kernel_search *search, const struct kallsyms_symbol *symbol)
{
    size_t first = symbol_requests_from(search->requests, search->count, symbol->address);
    if (first == search->count ||
        search->requests[first].vaddr - symbol->address >= KALLSYMS_FUNCTION_BYTES)
        return;
    struct kernel_symbol *found = &search->found[first];
    if (symbol->address < found->address ||
        (symbol->address == found->address &&
         !kallsyms_name_preferred(symbol->name, symbol->name_length, found->name, found->length)))
        return;
    found->address = symbol->address;
    found->length = (uint32_t)symbol->name_length;
    memcpy(found->name, symbol->name, found->length);
}

static int file_take(struct kernel_search *search, struct kallsyms *kallsyms, const char *path)
{
    struct kallsyms_symbol symbol;
    long got = kallsyms_open(kallsyms, path);
    if (got < 0)
        return (int)got;
    while ((got = kallsyms_fill(kallsyms)) > 0) {
        while (kallsyms_next(kallsyms, &symbol))
            symbol_take(search, &symbol);
    }
    kallsyms_close(kallsyms);
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
    struct kallsyms *kallsyms = arena_alloc(scratch, sizeof *kallsyms);
    int error = -ENOMEM;
    if (search.found != NULL && kallsyms != NULL) {
        error = file_take(&search, kallsyms, path);
        if (error == 0)
            error = found_apply(&search, requests, names);
    }
    arena_release(scratch, mark);
    return error;
}
