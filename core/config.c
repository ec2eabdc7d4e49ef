/*
 * Options out of the environment. Runs in the app's constructor. Never changes the environment,
 * never keeps a pointer into it, never fails.
 */
#include "config.h"

#include <stdint.h>
#include <string.h>

#include "nearest.h"
#include "options.h"
#include "text.h"

#define LINE_BYTES  1024u
#define SHOWN_BYTES 64u /* of a wrong name or value */

/* One variable of the environment, while it is read. */
struct reading {
    void (*complain)(void *context, const char *line);
    void *context;
    const char *name; /* of the option, behind the prefix */
    const char *value;
    bool threads_chosen, format_chosen;
};

struct number_range {
    unsigned low, high; /* the bounds; 0 too where `zero` says what it means */
    const char *zero;
    const char *meaning;
    bool more_passes; /* what is above is no mistake here: who uses the number bounds it */
};

static const struct number_range rate_range = {.low = 1,
                                               .high = CONFIG_RATE_HZ_MAX,
                                               .meaning = "samples per second of CPU time",
                                               .more_passes = true};
static const struct number_range stack_range = {.low = CONFIG_STACK_MIN,
                                                .high = CONFIG_STACK_MAX,
                                                .zero = "automatic",
                                                .meaning =
                                                    "bytes of stack copied with each sample"};
static const struct number_range checkpoint_range = {
    .low = 1, .high = CONFIG_CHECKPOINT_MAX, .zero = "never", .meaning = "seconds"};

/* Words in the order of their enum; a NULL ends them. */
static const char *const engine_words[] = {"auto", "perf", "timer", NULL};
static const char *const kernel_words[] = {"auto", "yes", "no", NULL};
static const char *const format_words[] = {"folded", "pprof", NULL};
static const char *const threads_words[] = {"name", "tid", "none", NULL};
static const char *const unit_words[] = {"samples", "us", NULL};
static const char *const seccomp_words[] = {"stay", "end", NULL};
static const char *const switch_words[] = {"no", "yes", NULL};

/* Other ways to say yes and no, wherever these are allowed. */
static const char *const synonyms[][2] = {
    {"1", "yes"}, {"on", "yes"}, {"true", "yes"}, {"0", "no"}, {"off", "no"}, {"false", "no"},
};

static void put_shown(struct text *text, const char *wrong)
{
    for (size_t i = 0; wrong[i] != '\0'; i++) {
        if (i == SHOWN_BYTES) {
            text_put(text, "...");
            return;
        }
        bool control = (unsigned char)wrong[i] < 0x20 || wrong[i] == 0x7f;
        text_put_char(text, control ? '?' : wrong[i]);
    }
}

/* "selfsample: SELFSAMPLE_NAME=value: what" */
static struct text complaint_start(const struct reading *reading, char *line, const char *what)
{
    struct text text = text_over(line, LINE_BYTES);
    text_put(&text, "selfsample: " CONFIG_PREFIX);
    text_put(&text, reading->name);
    text_put_char(&text, '=');
    put_shown(&text, reading->value);
    text_put(&text, ": ");
    text_put(&text, what);
    return text;
}

static bool same_word(const char *a, const char *b)
{
    return nearest_distance(a, b) == 0;
}

static void read_string(const struct reading *reading, char *string, size_t size)
{
    size_t length = strlen(reading->value);
    if (length < size) {
        memcpy(string, reading->value, length + 1);
        return;
    }
    char line[LINE_BYTES];
    struct text text = complaint_start(reading, line, "too long; allowed is up to ");
    text_put_u64(&text, size - 1);
    text_put(&text, " bytes; the default is used");
    reading->complain(reading->context, line);
}

static void complain_number(const struct reading *reading, const struct number_range *range,
                            const char *what, unsigned used)
{
    char line[LINE_BYTES];
    struct text text = complaint_start(reading, line, what);
    text_put(&text, "; allowed is ");
    if (range->zero != NULL) {
        text_put(&text, "0 (");
        text_put(&text, range->zero);
        text_put(&text, ") or ");
    }
    text_put_u64(&text, range->low);
    text_put(&text, " to ");
    text_put_u64(&text, range->high);
    text_put(&text, " (");
    text_put(&text, range->meaning);
    text_put(&text, "); ");
    text_put_u64(&text, used);
    text_put(&text, " is used");
    reading->complain(reading->context, line);
}

/* Digits only, no sign, no space. What is too large for *VALUE is UINT64_MAX. */
static bool digits_parse(const char *digits, uint64_t *value)
{
    *value = 0;
    for (const char *c = digits; *c != '\0'; c++) {
        if (*c < '0' || *c > '9')
            return false;
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, (uint64_t)(*c - '0'), value))
            *value = UINT64_MAX;
    }
    return *digits != '\0';
}

static bool is_negative(const char *number)
{
    uint64_t size;
    return *number == '-' && digits_parse(number + 1, &size);
}

static void read_number(const struct reading *reading, const struct number_range *range,
                        unsigned *number)
{
    uint64_t value;
    const char *wrong = NULL;
    if (!digits_parse(reading->value, &value))
        wrong = is_negative(reading->value) ? "too small" : "not a whole number";
    else if (value > range->high && !range->more_passes)
        wrong = "too large";
    else if (value < range->low && (value != 0 || range->zero == NULL))
        wrong = "too small";
    if (wrong == NULL)
        *number = value < UINT32_MAX ? (unsigned)value : UINT32_MAX;
    else
        complain_number(reading, range, wrong, *number);
}

static void complain_word(const struct reading *reading, const char *const *words, size_t count,
                          unsigned used)
{
    char line[LINE_BYTES];
    struct text text = complaint_start(reading, line, "no such value");
    const char *nearest = nearest_word(reading->value, words, count);
    if (nearest != NULL) {
        text_put(&text, "; nearest is ");
        text_put(&text, nearest);
    }
    text_put(&text, "; allowed is ");
    for (size_t i = 0; i < count; i++) {
        if (i > 0)
            text_put(&text, i + 1 == count ? " or " : ", ");
        text_put(&text, words[i]);
    }
    text_put(&text, "; ");
    text_put(&text, words[used]);
    text_put(&text, " is used");
    reading->complain(reading->context, line);
}

/* The number of the word that the value is; after a complaint, USED. */
static unsigned read_word(const struct reading *reading, const char *const *words, unsigned used)
{
    const char *value = reading->value;
    for (size_t i = 0; i < sizeof synonyms / sizeof synonyms[0]; i++)
        if (same_word(value, synonyms[i][0]))
            value = synonyms[i][1];
    unsigned count = 0;
    for (; words[count] != NULL; count++)
        if (same_word(value, words[count]))
            return count;
    complain_word(reading, words, count, used);
    return used;
}

static void complain_name(const struct reading *reading)
{
    const char *names[OPTION_PUBLIC_COUNT];
    for (unsigned i = 0; i < OPTION_PUBLIC_COUNT; i++)
        names[i] = option_name((enum option_id)i);
    char line[LINE_BYTES];
    struct text text = text_over(line, sizeof line);
    text_put(&text, "selfsample: " CONFIG_PREFIX);
    put_shown(&text, reading->name);
    text_put(&text, ": no such option");
    const char *nearest = nearest_word(reading->name, names, OPTION_PUBLIC_COUNT);
    if (nearest != NULL) {
        text_put(&text, "; nearest is " CONFIG_PREFIX);
        text_put(&text, nearest);
    }
    text_put(&text, "; options are");
    for (unsigned i = 0; i < OPTION_PUBLIC_COUNT; i++) {
        text_put_char(&text, ' ');
        text_put(&text, names[i]);
    }
    reading->complain(reading->context, line);
}

/* What an option that is yes or no sets; NULL: it is none of these. */
static bool *switch_of(struct config *config, enum option_id id)
{
    switch (id) {
    case OPTION_CHILDREN:
        return &config->children;
    case OPTION_ENABLED:
        return &config->enabled;
    case OPTION_SUMMARY:
        return &config->summary;
    case OPTION_INLINE:
        return &config->inlined;
    case OPTION_LIBUNWIND:
        return &config->libunwind;
    default:
        return NULL;
    }
}

static void option_read(struct config *config, struct reading *reading, enum option_id id)
{
    bool *is_on = switch_of(config, id);
    switch (id) {
    case OPTION_OUT:
        read_string(reading, config->out_pattern, sizeof config->out_pattern);
        break;
    case OPTION_RATE:
        read_number(reading, &rate_range, &config->rate_hz);
        break;
    case OPTION_STACK:
        read_number(reading, &stack_range, &config->stack_bytes);
        config->stack_bytes &= ~7u;
        break;
    case OPTION_ENGINE:
        config->engine = read_word(reading, engine_words, config->engine);
        break;
    case OPTION_KERNEL:
        config->kernel = read_word(reading, kernel_words, config->kernel);
        break;
    case OPTION_THREADS:
        config->threads = read_word(reading, threads_words, config->threads);
        reading->threads_chosen = true;
        break;
    case OPTION_UNIT:
        config->unit = read_word(reading, unit_words, config->unit);
        break;
    case OPTION_ONLY:
        read_string(reading, config->only, sizeof config->only);
        break;
    case OPTION_CHECKPOINT:
        read_number(reading, &checkpoint_range, &config->checkpoint_seconds);
        break;
    case OPTION_SECCOMP:
        config->seccomp_end = read_word(reading, seccomp_words, config->seccomp_end);
        break;
    case OPTION_FORMAT:
        config->format = read_word(reading, format_words, config->format);
        reading->format_chosen = true;
        break;
    case OPTION_REPORT:
        read_string(reading, config->report_path, sizeof config->report_path);
        break;
    default:
        if (is_on != NULL)
            *is_on = read_word(reading, switch_words, *is_on);
    }
}

/* VARIABLE is "NAME=value" of which NAME, LENGTH bytes long, stands behind the prefix. */
static void variable_read(struct config *config, struct reading *reading, const char *variable,
                          size_t length)
{
    const struct option_word *word = option_find(variable, length);
    reading->value = variable + length + 1;
    if (word != NULL) {
        reading->name = word->name;
        if (*reading->value != '\0')
            option_read(config, reading, word->id);
        return;
    }
    char name[SHOWN_BYTES + 2]; /* one byte more than is shown, so that a cut shows */
    struct text text = text_over(name, sizeof name);
    text_put_bytes(&text, variable, length);
    reading->name = name;
    complain_name(reading);
}

static bool ends_in(const char *name, const char *ending)
{
    size_t length = strlen(name), bytes = strlen(ending);
    return length >= bytes && memcmp(name + length - bytes, ending, bytes) == 0;
}

/* What a file of this name is taken for by those who read it. */
static enum config_format format_of_name(const char *pattern)
{
    bool is_pprof = ends_in(pattern, OUTPATH_PPROF) || ends_in(pattern, OUTPATH_PPROF_SHORT);
    return is_pprof ? CONFIG_FORMAT_PPROF : CONFIG_FORMAT_FOLDED;
}

void config_read(struct config *config, char *const *environment,
                 void (*complain)(void *context, const char *line), void *context)
{
    const size_t prefix = sizeof CONFIG_PREFIX - 1;
    struct reading reading = {.complain = complain, .context = context};
    *config = (struct config){.rate_hz = CONFIG_RATE_HZ, .children = true, .enabled = true};
    for (; *environment != NULL; environment++) {
        const char *variable = *environment;
        size_t length = 0;
        while (variable[length] != '\0' && variable[length] != '=')
            length++;
        if (variable[length] == '=' && length >= prefix &&
            memcmp(variable, CONFIG_PREFIX, prefix) == 0)
            variable_read(config, &reading, variable + prefix, length - prefix);
    }
    if (!reading.format_chosen)
        config->format = format_of_name(config->out_pattern);
    if (config->format != CONFIG_FORMAT_PPROF)
        return;
    if (!reading.threads_chosen)
        config->threads = CONFIG_THREADS_TID;
    if (config->inlined)
        complain(context, reading.format_chosen
                              ? "selfsample: SELFSAMPLE_INLINE=yes: not with "
                                "SELFSAMPLE_FORMAT=pprof; inlined functions are not shown"
                              : "selfsample: SELFSAMPLE_INLINE=yes: not in pprof files, as "
                                "SELFSAMPLE_OUT names one; inlined functions are not shown");
}
