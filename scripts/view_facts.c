/* What profiles say of themselves beside their text (core/facts.h), and what views take of that:
 * all that no option says. */
#include "views.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "command.h"
#include "facts.h"

/* False where FILE says nothing, or was changed since. */
static bool facts_read(const char *file, struct facts *facts)
{
    char text[FACTS_BYTES + 1], unit[8];
    unsigned long long bytes, rate_hz, roots;
    struct stat status;
    bool is_stdin = strcmp(file, "-") == 0;
    ssize_t length = is_stdin ? fgetxattr(STDIN_FILENO, FACTS_NAME, text, FACTS_BYTES)
                              : getxattr(file, FACTS_NAME, text, FACTS_BYTES);
    if (length < 0 || (is_stdin ? fstat(STDIN_FILENO, &status) : stat(file, &status)) != 0)
        return false;
    text[length] = 0;
    if (sscanf(text, "bytes %llu unit %7s rate %llu roots %llu", &bytes, unit, &rate_hz, &roots) !=
            4 ||
        bytes != (unsigned long long)status.st_size || rate_hz == 0 || rate_hz > 1000000000 ||
        roots > 1000)
        return false;
    *facts = (struct facts){bytes, strcmp(unit, "us") == 0, rate_hz, roots};
    return true;
}

/* A pprof file says all by itself, and its counts are samples. Only a regular file is looked into:
 * what is read from a pipe here is missing when the profile itself is read. */
static bool is_pprof(const char *file)
{
    char first[2] = "";
    struct stat status;
    bool is_regular = stat(file, &status) == 0 && S_ISREG(status.st_mode);
    FILE *stream = is_regular && strcmp(file, "-") != 0 ? fopen(file, "re") : NULL;
    if (stream == NULL)
        return false;
    bool is =
        fread(first, 1, sizeof first, stream) == sizeof first && memcmp(first, "\x1f\x8b", 2) == 0;
    fclose(stream);
    return is;
}

/* What FACTS of FILE, the first that says any, mean for what no option has said. */
static void facts_settle(struct view_options *options, const struct facts *facts)
{
    if (!options->unit_is_known)
        options->is_us = facts->is_us;
    if (!options->rate_is_known)
        options->rate = (double)facts->rate_hz;
    if (!options->roots_are_known)
        options->roots = facts->roots;
}

/* So many counts are 1000 s of CPU time. */
static uint64_t counts_in_1000_s(bool is_us, double rate)
{
    return is_us ? 1000000000 : (uint64_t)llround(1000 * rate);
}

void view_side_sampled(struct view_options *options, int side, double rate)
{
    double *side_rate = &options->side_rates[side];
    if (*side_rate == 0 || rate < *side_rate)
        *side_rate = rate;
}

bool view_facts_are_there(const char *file)
{
    struct facts facts;
    return facts_read(file, &facts);
}

struct scale view_facts_scale(struct view_options *options, int side, const char *file)
{
    struct facts facts;
    bool is_us = options->is_us;
    double rate = options->rate;
    if (facts_read(file, &facts)) {
        is_us = options->unit_is_given ? is_us : facts.is_us;
        rate = options->rate_is_given ? rate : (double)facts.rate_hz;
    }
    view_side_sampled(options, side, rate);
    return (struct scale){.times = counts_in_1000_s(options->is_us, options->rate),
                          .per = counts_in_1000_s(is_us, rate)};
}

bool scale_count(struct scale *scale, uint64_t *count)
{
    if (scale->times == scale->per)
        return true;
    if (__builtin_add_overflow(scale->taken, *count, &scale->taken))
        return false;
    unsigned __int128 due = (unsigned __int128)scale->taken * scale->times + scale->per / 2;
    due /= scale->per;
    if (due > UINT64_MAX)
        return false;
    *count = (uint64_t)due - scale->given;
    scale->given = (uint64_t)due;
    return true;
}

static void put_unit(char *text, size_t size, bool is_us, double rate)
{
    snprintf(text, size, is_us ? "us" : "samples at %g Hz", rate);
}

/* Tells where FILE says something else than the options by now. Returns whether what is made of it
 * is as these say. */
static bool facts_compare(const struct view_options *options, const struct facts *facts,
                          const char *file)
{
    char own[48], told[48];
    bool other_rate = fabs((double)facts->rate_hz - options->rate) > 0.5;
    bool other_roots = facts->roots != options->roots;
    put_unit(own, sizeof own, facts->is_us, (double)facts->rate_hz);
    put_unit(told, sizeof told, options->is_us, options->rate);
    if (!options->unit_is_given && !options->rate_is_given && strcmp(own, told) != 0)
        tell("%s: its counts, %s, are told as %s like the first's", file, own, told);
    if (!options->roots_are_known && other_roots)
        tell("%s: has %u frames in front of functions, and is taken for %zu like the first; "
             "--roots takes all for one",
             file, (unsigned)facts->roots, options->roots);
    return !(options->is_us && other_rate) && !other_roots;
}

void view_facts_take(struct view_options *options, char **files, size_t count)
{
    struct facts facts;
    size_t saying = 0, alike = 0, packed = 0;
    for (size_t i = 0; i < count; i++) {
        if (!facts_read(files[i], &facts)) {
            packed += is_pprof(files[i]);
            continue;
        }
        if (saying++ == 0)
            facts_settle(options, &facts);
        alike += facts_compare(options, &facts, files[i]);
    }
    options->unit_is_known |=
        count > 0 && alike + packed == count && (packed == 0 || !options->is_us);
    options->rate_is_known |= saying > 0;
    options->roots_are_known |= saying > 0;
}

void view_facts_attach(FILE *out, const struct view_options *options, size_t roots)
{
    struct stat status;
    long written;
    if (!options->unit_is_known || !options->rate_is_known || fflush(out) != 0 ||
        fstat(fileno(out), &status) != 0 || !S_ISREG(status.st_mode) ||
        (written = ftell(out)) < 0 || written != status.st_size)
        return;
    const struct facts facts = {(uint64_t)written, options->is_us, (uint64_t)llround(options->rate),
                                roots};
    facts_attach(fileno(out), &facts);
}
