/*
 * Demangles symbol names through libiberty. Runs in the helper.
 *
 * libiberty wants malloc, sprintf and a promise that no name is too much for it. What it references
 * in libc is renamed, when it is linked in (scripts/demangler.mk), to the functions below that are
 * named demangle_*: they take memory from the arena of the current call. When it has used up its
 * memory or the output is too long, they leave it by __builtin_longjmp. It then has nothing to
 * clean up: the arena is released as a whole, and it keeps no state between calls.
 */
#include "demangle.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "arena.h"
#include "text.h"

/* C++ parameters, but no return types of templates, which are no part of what a caller writes. */
#define OPTIONS          (DMGL_PARAMS | DMGL_ANSI)
#define MEMORY_BYTES_MAX (1024u * 1024)
#define ALLOCATIONS_MAX  20000u
#define NO_MEMORY_TEXT   "[no memory for this name]"

/*
 * Two things in libiberty's C++ demangler grow without bound, and the callback cannot stop them:
 * it puts an array of (templates x references) elements of 16 bytes on the stack, neither of them
 * more than twice as many as the letters that begin one; and a conversion operator to a template
 * parameter with arguments ("cvT_I") is parsed twice, and so is each one within. Names of people
 * have two or three of the latter.
 */
#define SCOPES_MAX       16384u
#define APPLICATIONS_MAX 8u

/* The call of a demangler that is under way. There is one task that demangles. */
static struct {
    void *leave[5]; /* __builtin_setjmp */
    struct arena *arena;
    size_t bytes_left;
    unsigned allocations_left;
    char *output;
    size_t output_length;
} call;

/* What libiberty gets for libc's functions of that name. */
void *demangle_malloc(size_t bytes);
void *demangle_realloc(void *memory, size_t bytes);
void *demangle_xmalloc(size_t bytes);
void *demangle_xrealloc(void *memory, size_t bytes);
void demangle_free(void *memory);
int demangle_strcmp(const char *one, const char *other);
int demangle_strncmp(const char *one, const char *other, size_t count);
int demangle_sprintf(char *buffer, int flag, size_t size, const char *format, ...);
int demangle_snprintf(char *buffer, size_t size, int flag, size_t known, const char *format, ...);
_Noreturn void demangle_stack_broken(void);

static _Noreturn void call_leave(void)
{
    __builtin_longjmp(call.leave, 1);
}

/* Memory is preceded by its size, for realloc; 16 bytes keep the alignment. */
void *demangle_malloc(size_t bytes)
{
    if (bytes > call.bytes_left || call.allocations_left == 0)
        call_leave();
    size_t *memory = arena_alloc(call.arena, 16 + bytes);
    if (memory == NULL)
        call_leave();
    call.bytes_left -= bytes;
    call.allocations_left--;
    *memory = bytes;
    return (char *)memory + 16;
}

void *demangle_realloc(void *memory, size_t bytes)
{
    void *larger = demangle_malloc(bytes);
    if (memory != NULL) {
        size_t had = *(size_t *)(void *)((char *)memory - 16);
        memcpy(larger, memory, had < bytes ? had : bytes);
    }
    return larger;
}

/* libiberty's own: these never return NULL. Nor do those above, but objcopy wants a name for each.
 */
void *demangle_xmalloc(size_t bytes)
{
    return demangle_malloc(bytes);
}

void *demangle_xrealloc(void *memory, size_t bytes)
{
    return demangle_realloc(memory, bytes);
}

void demangle_free(void *memory)
{
    (void)memory; /* the arena is released when the demangler is done */
}

int demangle_strncmp(const char *one, const char *other, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (one[i] != other[i] || one[i] == '\0')
            return (unsigned char)one[i] - (unsigned char)other[i];
    }
    return 0;
}

int demangle_strcmp(const char *one, const char *other)
{
    return demangle_strncmp(one, other, SIZE_MAX);
}

/* The few formats that libiberty's demanglers use: %d, %ld, %lu, %lx, %c, %s and plain text. */
static int format_put(char *buffer, size_t size, const char *format, va_list arguments)
{
    struct text text = text_over(buffer, size);
    for (; *format != '\0'; format++) {
        if (*format != '%') {
            text_put_char(&text, *format);
            continue;
        }
        bool is_long = format[1] == 'l';
        format += is_long ? 2 : 1;
        if (*format == 'd')
            text_put_i64(&text, is_long ? va_arg(arguments, long) : va_arg(arguments, int));
        else if (*format == 'u' && is_long)
            text_put_u64(&text, va_arg(arguments, unsigned long));
        else if (*format == 'x' && is_long)
            text_put_hex(&text, va_arg(arguments, unsigned long));
        else if (*format == 's')
            text_put(&text, va_arg(arguments, const char *));
        else
            call_leave(); /* a format of another version of libiberty */
    }
    return (int)text.length;
}

int demangle_sprintf(char *buffer, int flag, size_t size, const char *format, ...)
{
    va_list arguments;
    (void)flag;
    va_start(arguments, format);
    int length = format_put(buffer, size, format, arguments);
    va_end(arguments);
    return length;
}

int demangle_snprintf(char *buffer, size_t size, int flag, size_t known, const char *format, ...)
{
    va_list arguments;
    (void)flag, (void)known;
    va_start(arguments, format);
    int length = format_put(buffer, size, format, arguments);
    va_end(arguments);
    return length;
}

void demangle_stack_broken(void)
{
    __builtin_trap();
}

static void output_take(const char *text, size_t length, void *opaque)
{
    (void)opaque;
    if (length > DEMANGLE_OUTPUT_BYTES - call.output_length)
        call_leave();
    memcpy(call.output + call.output_length, text, length);
    call.output_length += length;
}

static bool d_demangle(const char *mangled)
{
    const char *text = dlang_demangle(mangled, OPTIONS);
    if (text == NULL)
        return false;
    output_take(text, strlen(text), NULL);
    return true;
}

static size_t letters_count(const char *name, char one, char other)
{
    size_t count = 0;
    for (; *name != '\0'; name++)
        count += *name == one || *name == other;
    return count;
}

/* How often arguments are given to a template parameter: "T_I", "T0_I", ... */
static size_t applications_count(const char *name)
{
    size_t count = 0;
    while (*name != '\0') {
        if (*name++ != 'T')
            continue;
        while ((*name >= '0' && *name <= '9') || (*name >= 'A' && *name <= 'Z'))
            name++;
        count += name[0] == '_' && name[1] == 'I';
    }
    return count;
}

static bool cpp_demangle(const char *mangled)
{
    if (letters_count(mangled, 'I', 'I') * letters_count(mangled, 'R', 'O') > SCOPES_MAX ||
        applications_count(mangled) > APPLICATIONS_MAX)
        return false;
    /* Without its own limit of 1024 bytes of name: input and stack have ours. */
    return cplus_demangle_v3_callback(mangled, OPTIONS | DMGL_NO_RECURSE_LIMIT, output_take,
                                      NULL) != 0;
}

/* Rust's legacy names look like C++, so it is asked first. */
static bool by_prefix(const char *mangled)
{
    bool demangled = false;
    if (mangled[1] == 'R' || mangled[1] == 'Z')
        demangled = rust_demangle_callback(mangled, OPTIONS, output_take, NULL) != 0;
    if (!demangled && (mangled[1] == 'Z' || mangled[1] == 'G')) {
        call.output_length = 0;
        demangled = cpp_demangle(mangled);
    }
    if (!demangled && mangled[1] == 'D')
        demangled = d_demangle(mangled);
    return demangled && call.output_length > 0;
}

/* Where a demangler is left in the middle, control comes back here. */
__attribute__((noinline)) static bool by_prefix_or_left(const char *mangled)
{
    if (__builtin_setjmp(call.leave) != 0)
        return false;
    return by_prefix(mangled);
}

/* The demangled text in SCRATCH, or NULL. */
static const char *demangled_text(const char *mangled, struct arena *scratch)
{
    size_t length = strlen(mangled);
    if (length < 3 || length > DEMANGLE_INPUT_BYTES || mangled[0] != '_')
        return NULL;
    call.arena = scratch;
    call.bytes_left = MEMORY_BYTES_MAX;
    call.allocations_left = ALLOCATIONS_MAX;
    call.output_length = 0;
    call.output = arena_alloc(scratch, DEMANGLE_OUTPUT_BYTES + 1);
    if (call.output == NULL || !by_prefix_or_left(mangled))
        return NULL;
    call.output[call.output_length] = '\0';
    return call.output;
}

/* C0 controls and DEL; bytes of UTF-8 are all above. */
static char fit(char c)
{
    if (c == ';')
        return ':';
    return (unsigned char)c < 0x20 || c == 0x7f ? '_' : c;
}

static bool is_fit(const char *name)
{
    while (*name != '\0' && fit(*name) == *name)
        name++;
    return *name == '\0';
}

const char *demangle(const char *mangled, struct arena *names, struct arena *scratch)
{
    struct arena_mark mark = arena_mark(scratch);
    const char *text = demangled_text(mangled, scratch);
    if (text == NULL)
        text = mangled;
    const char *name = mangled;
    if (text != mangled || !is_fit(mangled)) {
        char *copy = arena_copy_text(names, text, strlen(text));
        for (size_t i = 0; copy != NULL && copy[i] != '\0'; i++)
            copy[i] = fit(copy[i]);
        if (copy != NULL)
            name = copy;
        else if (!is_fit(mangled))
            name = NO_MEMORY_TEXT;
    }
    arena_release(scratch, mark);
    return name;
}
