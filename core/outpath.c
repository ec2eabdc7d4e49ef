/*
 * Names of output files. Runs in the app's constructor and in the helper. Never touches the file
 * system.
 */
#include "outpath.h"

#include <errno.h>
#include <string.h>

#define SECONDS_PER_DAY  86400u
#define SECONDS_MAX      253402300799u /* 9999-12-31 23:59:59 */
#define PLACEHOLDER_SHOW 64u

struct expansion {
    struct text *names;
    const struct outpath_facts *facts;
    void (*complain)(void *context, const char *line);
    void *context;
};

const char *outpath_base(const char *path)
{
    const char *base = path;
    for (const char *c = path; *c != '\0'; c++)
        if (*c == '/')
            base = c + 1;
    return base;
}

static bool is_control(char c)
{
    return (unsigned char)c < 0x20 || c == 0x7f;
}

/* What is put in is no pattern: its percent signs are doubled. */
static void put_clean(struct text *names, const char *value, bool slashes)
{
    for (const char *c = value; *c != '\0'; c++) {
        bool bad = is_control(*c) || (*c == '/' && !slashes);
        text_put_char(names, bad ? '_' : *c);
        if (*c == '%')
            text_put_char(names, '%');
    }
}

static bool year_is_leap(unsigned year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

static unsigned month_days(unsigned year, unsigned month)
{
    static const unsigned char days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && year_is_leap(year));
}

static void put_date(struct text *text, uint64_t days)
{
    unsigned year = 1970, month = 1;
    for (; days >= 365u + year_is_leap(year); year++)
        days -= 365u + year_is_leap(year);
    for (; days >= month_days(year, month); month++)
        days -= month_days(year, month);
    text_put_padded(text, year, 4);
    text_put_padded(text, month, 2);
    text_put_padded(text, days + 1, 2);
}

static void put_time(struct text *text, uint64_t seconds)
{
    if (seconds > SECONDS_MAX)
        seconds = SECONDS_MAX;
    put_date(text, seconds / SECONDS_PER_DAY);
    text_put_char(text, 'T');
    text_put_padded(text, seconds / 3600 % 24, 2);
    text_put_padded(text, seconds / 60 % 60, 2);
    text_put_padded(text, seconds % 60, 2);
}

static void put_variable(struct text *text, char *const *environment, const char *name,
                         size_t length)
{
    for (; *environment != NULL; environment++) {
        size_t i = 0;
        while (i < length && (*environment)[i] == name[i])
            i++;
        if (i == length && (*environment)[i] == '=') {
            put_clean(text, *environment + length + 1, true);
            return;
        }
    }
}

/* What stands at AT is kept: the percent sign here, the rest as the ordinary text that follows. */
static const char *placeholder_keep(const struct expansion *expansion, const char *at)
{
    char line[512], wrong[PLACEHOLDER_SHOW];
    struct text shown = text_over(wrong, sizeof wrong);
    text_put_bytes(&shown, at, at[1] == '\0' ? 1 : at[1] == '{' ? strlen(at) : 2);
    struct text text = text_over(line, sizeof line);
    text_put(&text, "selfsample: SELFSAMPLE_OUT: ");
    for (const char *c = wrong; *c != '\0'; c++)
        text_put_char(&text, is_control(*c) ? '_' : *c);
    text_put(&text, at[1] == '{' ? ": no } behind it" : ": no such placeholder");
    text_put(&text, "; there are %p %e %h %t %n %{VAR} %%; it is kept as it stands");
    expansion->complain(expansion->context, line);
    text_put(expansion->names, "%%");
    return at + 1;
}

/* Puts in what the placeholder at AT (its percent sign) stands for; returns where it ends. */
static const char *placeholder_put(const struct expansion *expansion, const char *at)
{
    const struct outpath_facts *facts = expansion->facts;
    struct text *names = expansion->names;
    size_t length = 0;
    switch (at[1]) {
    case 'p':
        text_put_i64(names, facts->pid);
        return at + 2;
    case 'e':
        put_clean(names, outpath_base(facts->program), false);
        return at + 2;
    case 'h':
        put_clean(names, facts->host, false);
        return at + 2;
    case 't':
        put_time(names, facts->start_seconds);
        return at + 2;
    case 'n':
        text_put(names, "%n");
        return at + 2;
    case '%':
        text_put(names, "%%");
        return at + 2;
    case '{':
        while (at[2 + length] != '\0' && at[2 + length] != '}')
            length++;
        if (at[2 + length] == '\0')
            return placeholder_keep(expansion, at);
        put_variable(names, facts->environment, at + 2, length);
        return at + 2 + length + 1;
    default:
        return placeholder_keep(expansion, at);
    }
}

static void pattern_put(const struct expansion *expansion, const char *pattern)
{
    while (*pattern != '\0') {
        if (*pattern == '%')
            pattern = placeholder_put(expansion, pattern);
        else
            text_put_char(expansion->names, *pattern++);
    }
}

int outpath_expand(struct text *names, const char *pattern, const struct outpath_facts *facts,
                   void (*complain)(void *context, const char *line), void *context)
{
    const struct expansion expansion = {names, facts, complain, context};
    size_t before = names->length;
    pattern_put(&expansion, pattern);
    if (names->length == before || names->start[names->length - 1] == '/') {
        pattern_put(&expansion, OUTPATH_DEFAULT);
        text_put(names, facts->ending);
    }
    return names->cut ? -ENAMETOOLONG : 0;
}

bool outpath_number(struct text *path, const char *names, uint64_t counter)
{
    bool numbered = false;
    while (*names != '\0') {
        bool counts = names[0] == '%' && names[1] == 'n';
        if (counts)
            text_put_u64(path, counter);
        else
            text_put_char(path, *names);
        numbered |= counts;
        names += counts || (names[0] == '%' && names[1] == '%') ? 2 : 1;
    }
    return numbered;
}

/* Where the ending of PATH begins; at its end where it has none. */
static const char *ending_of(const char *path)
{
    const char *base = outpath_base(path);
    const char *end = path + strlen(path), *ending = end;
    for (const char *c = base; *c != '\0'; c++)
        if (*c == '.' && c > base)
            ending = c;
    const char *pprof = end - (sizeof OUTPATH_PPROF - 1);
    return pprof > base && text_equal(pprof, OUTPATH_PPROF) ? pprof : ending;
}

void outpath_with_suffix(struct text *text, const char *path, unsigned n)
{
    const char *ending = n != 0 ? ending_of(path) : path + strlen(path);
    text_put_bytes(text, path, (size_t)(ending - path));
    if (n == 0)
        return;
    text_put_char(text, '.');
    text_put_u64(text, n);
    text_put(text, ending);
}
