/*
 * Reads pprof files into a tree of stacks: ours, and those of others. Runs in the selfsample
 * command. What a file says is not believed: every number in it that names something else is looked
 * up, and a damaged file ends the process with one line.
 */
#include "pprof_read.h"

#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "pprof.pb-c.h"

#define GZIP_WRAPPER       16 /* to be added to the window's bits */
#define UNPACKED_BYTES_MAX (1u << 30)
#define NO_THREAD          "[no thread]"

/* Something of the file that has an id. */
struct entry {
    uint64_t id;
    const void *message;
    size_t frame_count;   /* of a location, once they are known */
    struct name **frames; /* root first */
};

struct table {
    struct entry *entries; /* by id */
    size_t count;
};

struct reading {
    struct stacks *stacks;
    const struct view_options *options;
    const char *file;
    Pprof__Profile *profile;
    struct table mappings, locations, functions;
    size_t value;            /* which of each sample's */
    uint64_t per;            /* so many of its units are one count, ... */
    uint64_t times;          /* ... or so many counts are one unit */
    uint64_t taken, counted; /* so far, in its units and as counts */
    struct name **path;      /* of the sample in work, root first */
    size_t depth, room;
};

_Noreturn static void damaged(const struct reading *reading, const char *what)
{
    view_fail("%s: not a pprof profile, or a damaged one: %s", reading->file, what);
}

/* ---- the file ---- */

/* One gzip member is one profile: the messages of two, one behind the other, are none, since the
 * second would take its names from the strings of the first. */
static uint8_t *unpack(const struct reading *reading, const char *bytes, size_t length,
                       size_t *unpacked)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)length};
    size_t room = 4 * length + 4096;
    uint8_t *memory = memory_or_end(malloc(room));
    int result = inflateInit2(&stream, MAX_WBITS + GZIP_WRAPPER);
    for (*unpacked = 0; result == Z_OK; *unpacked = stream.total_out) {
        if (*unpacked == room && room >= UNPACKED_BYTES_MAX)
            view_fail("%s: more than 1 GB once it is unpacked", reading->file);
        if (*unpacked == room)
            memory = memory_or_end(realloc(memory, room *= 2));
        stream.next_out = memory + *unpacked;
        stream.avail_out = (uInt)(room - *unpacked);
        result = inflate(&stream, Z_NO_FLUSH);
    }
    inflateEnd(&stream);
    if (result != Z_STREAM_END)
        view_fail("%s: a damaged gzip file%s", reading->file,
                  result == Z_BUF_ERROR ? ": its end is missing" : "");
    if (stream.avail_in > 0)
        view_fail("%s: more follows behind the end of the profile; files that were joined are to "
                  "be named one by one",
                  reading->file);
    return memory;
}

/* A string of the file; "" for one that is not there. */
static const char *string_at(const struct reading *reading, int64_t index)
{
    bool is_there = index > 0 && (uint64_t)index < reading->profile->n_string_table;
    return is_there ? reading->profile->string_table[index] : "";
}

/* ---- ids ---- */

static int by_id(const void *left, const void *right)
{
    uint64_t a = ((const struct entry *)left)->id, b = ((const struct entry *)right)->id;
    return a < b ? -1 : a > b;
}

static void table_open(struct table *table, size_t count)
{
    *table = (struct table){.entries = memory_or_end(calloc(count + 1, sizeof(struct entry)))};
}

static void table_put(struct table *table, uint64_t id, const void *message)
{
    table->entries[table->count++] = (struct entry){.id = id, .message = message};
}

static struct entry *table_find(const struct table *table, uint64_t id)
{
    const struct entry key = {.id = id};
    return bsearch(&key, table->entries, table->count, sizeof key, by_id);
}

static void tables_make(struct reading *reading)
{
    const Pprof__Profile *profile = reading->profile;
    table_open(&reading->mappings, profile->n_mapping);
    table_open(&reading->locations, profile->n_location);
    table_open(&reading->functions, profile->n_function);
    for (size_t i = 0; i < profile->n_mapping; i++)
        table_put(&reading->mappings, profile->mapping[i]->id, profile->mapping[i]);
    for (size_t i = 0; i < profile->n_location; i++)
        table_put(&reading->locations, profile->location[i]->id, profile->location[i]);
    for (size_t i = 0; i < profile->n_function; i++)
        table_put(&reading->functions, profile->function[i]->id, profile->function[i]);
    struct table *const tables[] = {&reading->mappings, &reading->locations, &reading->functions};
    for (size_t i = 0; i < sizeof tables / sizeof tables[0]; i++)
        qsort(tables[i]->entries, tables[i]->count, sizeof(struct entry), by_id);
}

/* ---- names ---- */

/* The name of TEXT with MARK behind it, fit for a folded line. */
static struct name *name_of(struct reading *reading, const char *text, const char *mark)
{
    size_t length = strlen(text), marked = length + strlen(mark);
    char *clean = memory_or_end(malloc(marked + 1));
    memcpy(clean, text, length);
    strcpy(clean + length, mark);
    for (char *c = clean; *c != 0; c++)
        *c = *c == ';' ? ':' : (unsigned char)*c < ' ' || *c == 127 ? '_' : *c;
    struct name *name = stacks_name(reading->stacks, clean, marked);
    free(clean);
    return name;
}

static struct name *function_name(struct reading *reading, uint64_t id, bool is_inlined)
{
    const struct entry *entry = table_find(&reading->functions, id);
    if (entry == NULL)
        damaged(reading, "a location of a function that is missing");
    const Pprof__Function *function = entry->message;
    const char *text = string_at(reading, function->name);
    if (*text == 0)
        text = string_at(reading, function->system_name);
    return name_of(reading, *text != 0 ? text : "[unknown]", is_inlined ? "_[i]" : "");
}

/* Of a location without a function: where it is in its file. */
static struct name *address_name(struct reading *reading, const Pprof__Location *location)
{
    const struct entry *entry = table_find(&reading->mappings, location->mapping_id);
    const Pprof__Mapping *mapping = entry != NULL ? entry->message : NULL;
    const char *path = mapping != NULL ? string_at(reading, mapping->filename) : "";
    const char *slash = strrchr(path, '/');
    char text[512];
    if (*path == 0)
        return name_of(reading, "[unknown]", "");
    snprintf(
        text, sizeof text, "%.480s+0x%llx", slash != NULL ? slash + 1 : path,
        (unsigned long long)(location->address - mapping->memory_start + mapping->file_offset));
    return name_of(reading, text, "");
}

/* The frames at a location: those inlined there come after their caller. */
static const struct entry *location_find(struct reading *reading, uint64_t id)
{
    struct entry *entry = table_find(&reading->locations, id);
    if (entry == NULL)
        damaged(reading, "a sample at a location that is missing");
    if (entry->frames != NULL)
        return entry;
    const Pprof__Location *location = entry->message;
    size_t lines = location->n_line;
    entry->frame_count = lines > 0 ? lines : 1;
    entry->frames = memory_or_end(calloc(entry->frame_count, sizeof *entry->frames));
    if (lines == 0)
        entry->frames[0] = address_name(reading, location);
    for (size_t i = 0; i < lines; i++)
        entry->frames[i] =
            function_name(reading, location->line[lines - 1 - i]->function_id, i > 0);
    return entry;
}

/* ---- samples ---- */

/* The number of the first kind of value with this unit; SIZE_MAX: there is none. */
static size_t value_find(const struct reading *reading, const char *unit)
{
    const Pprof__Profile *profile = reading->profile;
    for (size_t i = 0; i < profile->n_sample_type; i++)
        if (strcmp(string_at(reading, profile->sample_type[i]->unit), unit) == 0)
            return i;
    return SIZE_MAX;
}

/* CPU time between two samples, as the file tells it; 0: it does not. */
static uint64_t period_told_ns(const struct reading *reading)
{
    const Pprof__Profile *profile = reading->profile;
    bool is_told = profile->period > 0 && profile->period_type != NULL &&
                   strcmp(string_at(reading, profile->period_type->unit), "nanoseconds") == 0;
    return is_told ? (uint64_t)profile->period : 0;
}

/* Which value makes the counts that the options speak of, and how. Counts of another period than
 * theirs are made of the time. */
static void value_choose(struct reading *reading, int side, struct view_options *options)
{
    size_t count = value_find(reading, "count"), ns = value_find(reading, "nanoseconds");
    uint64_t told_ns = period_told_ns(reading);
    if (told_ns != 0 && !options->rate_is_known)
        options->rate = rate_of_period(told_ns);
    options->rate_is_known = true;
    view_side_sampled(options, side,
                      told_ns != 0 && !options->rate_is_given ? rate_of_period(told_ns)
                                                              : options->rate);
    uint64_t period_ns = period_of_rate(options->rate);
    bool is_us = options->is_us, is_other = told_ns != 0 && told_ns != period_ns;
    bool want_ns = is_us || is_other || count == SIZE_MAX;
    reading->value = want_ns && ns != SIZE_MAX ? ns : count;
    reading->per = reading->times = 1;
    if (reading->value == ns)
        reading->per = is_us ? 1000 : period_ns;
    else if (is_us) {
        reading->times = told_ns != 0 ? told_ns : period_ns;
        reading->per = 1000;
    }
    if (reading->value == SIZE_MAX)
        view_fail("%s: a pprof profile, but neither of counts nor of nanoseconds", reading->file);
}

static uint64_t count_of(struct reading *reading, const Pprof__Sample *sample)
{
    if (sample->n_value <= reading->value)
        damaged(reading, "a sample without its value");
    int64_t value = sample->value[reading->value];
    if (value < 0)
        view_fail("%s: values less than 0: a difference of profiles can't be shown", reading->file);
    uint64_t before = reading->counted;
    if (__builtin_add_overflow(reading->taken, (uint64_t)value, &reading->taken) ||
        __builtin_mul_overflow(reading->taken, reading->times, &reading->counted))
        view_fail("%s: the values add up to more than 64 bits hold", reading->file);
    reading->counted =
        reading->counted / reading->per +
        (reading->counted % reading->per >= (reading->per + 1) / 2 && reading->per > 1);
    return reading->counted - before;
}

static void path_put(struct reading *reading, struct name *name)
{
    if (reading->depth == reading->room) {
        reading->room = 2 * reading->room + 64;
        reading->path =
            memory_or_end(reallocarray(reading->path, reading->room, sizeof *reading->path));
    }
    reading->path[reading->depth++] = name;
}

static const char *label_of(const struct reading *reading, const Pprof__Sample *sample,
                            const char *key)
{
    for (size_t i = 0; i < sample->n_label; i++)
        if (strcmp(string_at(reading, sample->label[i]->key), key) == 0)
            return string_at(reading, sample->label[i]->str);
    return "";
}

/* The frames of SAMPLE as a folded file has them. */
static void path_make(struct reading *reading, const Pprof__Sample *sample)
{
    const char *program = label_of(reading, sample, "program");
    const char *thread = label_of(reading, sample, "thread");
    const char *label = label_of(reading, sample, "label");
    reading->depth = 0;
    if (*program != 0)
        path_put(reading, name_of(reading, program, ""));
    if (reading->options->roots > 0)
        path_put(reading, name_of(reading, *thread != 0 ? thread : NO_THREAD, ""));
    if (*label != 0)
        path_put(reading, name_of(reading, label, ""));
    for (size_t i = sample->n_location_id; i-- > 0;) {
        const struct entry *location = location_find(reading, sample->location_id[i]);
        for (size_t j = 0; j < location->frame_count; j++)
            path_put(reading, location->frames[j]);
    }
}

static bool thread_is_wanted(const struct reading *reading)
{
    const struct view_options *options = reading->options;
    if (options->thread == NULL)
        return true;
    return options->roots <= reading->depth &&
           fnmatch(options->thread, reading->path[options->roots - 1]->text, 0) == 0;
}

/* Of several programs, so that the thread is the second frame. */
static bool has_programs(const struct reading *reading)
{
    const Pprof__Profile *profile = reading->profile;
    return profile->n_sample != 0 && *label_of(reading, profile->sample[0], "program") != 0;
}

static void samples_take(struct reading *reading, int side, struct node *base)
{
    for (size_t i = 0; i < reading->profile->n_sample; i++) {
        const Pprof__Sample *sample = reading->profile->sample[i];
        uint64_t count = count_of(reading, sample);
        struct node *node = base;
        path_make(reading, sample);
        if (count == 0 || !thread_is_wanted(reading))
            continue;
        for (size_t depth = 0; depth < reading->depth; depth++)
            if (!view_leaves_out(reading->options, depth + 1, depth + 1 == reading->depth))
                node = stacks_child(reading->stacks, node, reading->path[depth]);
        if (node == reading->stacks->root)
            node = stacks_child(reading->stacks, node, name_of(reading, "[unknown]", ""));
        if (!stacks_add(reading->stacks, node, side, count))
            view_fail("%s: the counts add up to more than 64 bits hold", reading->file);
    }
}

static void table_close(struct table *table)
{
    for (size_t i = 0; i < table->count; i++)
        free(table->entries[i].frames);
    free(table->entries);
}

void pprof_read(struct stacks *stacks, int side, struct node *base, const struct pprof_bytes *bytes,
                struct view_options *options)
{
    struct reading reading = {.stacks = stacks, .options = options, .file = bytes->file};
    size_t length;
    uint8_t *unpacked = unpack(&reading, bytes->bytes, bytes->length, &length);
    reading.profile = pprof__profile__unpack(NULL, length, unpacked);
    free(unpacked);
    if (reading.profile == NULL)
        damaged(&reading, "no protocol buffer of that kind");
    tables_make(&reading);
    value_choose(&reading, side, options);
    if (!options->roots_are_known && options->roots == 1 && has_programs(&reading))
        options->roots = 2;
    samples_take(&reading, side, base);
    table_close(&reading.mappings);
    table_close(&reading.locations);
    table_close(&reading.functions);
    free(reading.path);
    pprof__profile__free_unpacked(reading.profile, NULL);
}
