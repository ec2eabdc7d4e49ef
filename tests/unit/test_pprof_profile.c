/*
 * pprof files of profiles: taken apart here by the encoding's own rules, and held against what
 * folded_write makes of the same profile.
 */
#include "unpack_fixture.h"

#include <errno.h>
#include <fcntl.h>

#include "folded.h"
#include "pprof_profile.h"

#define UNIT_NS      1000u
#define STRINGS      300
#define STRING_BYTES 4096 /* of the longest path, too */
#define LINE_BYTES   2000

static struct arena arena, scratch;
static struct app_memory memory;
static struct modules modules;
static struct unwinder unwinder;
static struct profile profile;
static struct stack_builder builder;
static struct outfile out;

static const struct unwind_library no_library;

/* ---- taking apart ---- */

struct field {
    uint64_t number, value; /* of bytes: how many */
    const unsigned char *bytes;
};

static uint64_t varint(const unsigned char **at)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        value |= (uint64_t)(**at & 0x7f) << shift;
        if ((*(*at)++ & 0x80) == 0)
            break;
    }
    return value;
}

static bool field_next(const unsigned char **at, const unsigned char *end, struct field *field)
{
    if (*at >= end)
        return false;
    uint64_t tag = varint(at);
    field->number = tag >> 3;
    field->value = varint(at);
    field->bytes = *at;
    if ((tag & 7) == 2)
        *at += field->value;
    else
        CHECK_U64(tag & 7, 0);
    return true;
}

/* The value of field NUMBER of a message; 0 where it has none. */
static uint64_t value_of(const struct field *message, uint64_t number)
{
    const unsigned char *at = message->bytes;
    struct field field;
    while (field_next(&at, message->bytes + message->value, &field))
        if (field.number == number)
            return field.value;
    return 0;
}

static unsigned char *file;
static size_t file_bytes;
static char strings[STRINGS][STRING_BYTES];
static size_t string_count;

/* The message with this ID among those of field NUMBER of the file. */
static struct field message_find(uint64_t number, uint64_t id)
{
    const unsigned char *at = file;
    struct field field;
    while (field_next(&at, file + file_bytes, &field))
        if (field.number == number && value_of(&field, 1) == id)
            return field;
    return (struct field){0};
}

static void file_take(void)
{
    const unsigned char *at = file;
    struct field field;
    for (string_count = 0; field_next(&at, file + file_bytes, &field);)
        if (field.number == 6 && string_count < STRINGS)
            snprintf(strings[string_count++], STRING_BYTES, "%.*s", (int)field.value, field.bytes);
}

/* The function's name at a location. */
static const char *name_at(uint64_t location_id)
{
    struct field location = message_find(4, location_id), line = {0}, field;
    const unsigned char *at = location.bytes;
    while (location.bytes != NULL && field_next(&at, location.bytes + location.value, &field))
        if (field.number == 4)
            line = field;
    REQUIRE(line.bytes != NULL);
    struct field function = message_find(5, value_of(&line, 1));
    REQUIRE(function.bytes != NULL && value_of(&function, 2) < string_count);
    return strings[value_of(&function, 2)];
}

/* A sample's labels and functions as a folded line has them; its values. */
static void sample_take(const struct field *sample, char *line, uint64_t *values, uint64_t *tid)
{
    const unsigned char *at = sample->bytes;
    struct field field;
    const char *thread = "", *label = "";
    uint64_t path[64];
    size_t depth = 0;
    while (field_next(&at, sample->bytes + sample->value, &field)) {
        const unsigned char *packed = field.bytes;
        if (field.number == 3 && value_of(&field, 1) == PPROF_THREAD)
            thread = strings[value_of(&field, 2)];
        else if (field.number == 3 && value_of(&field, 1) == PPROF_TID)
            *tid = value_of(&field, 3);
        else if (field.number == 3 && value_of(&field, 1) == PPROF_LABEL)
            label = strings[value_of(&field, 2)];
        while (field.number == 1 && packed < field.bytes + field.value)
            path[depth++] = varint(&packed);
        for (size_t i = 0; field.number == 2 && packed < field.bytes + field.value; i++)
            values[i] = varint(&packed);
    }
    int used = snprintf(line, LINE_BYTES, "%s%s%s", thread, *label ? ";" : "", label);
    while (depth-- > 0)
        used += snprintf(line + used, LINE_BYTES - (size_t)used, ";%s", name_at(path[depth]));
}

/* The sum of all samples that are this LINE (NULL: all). TID 0: of any thread. */
static uint64_t samples_sum(const char *line, size_t value, uint64_t tid)
{
    const unsigned char *at = file;
    uint64_t sum = 0;
    struct field field;
    while (field_next(&at, file + file_bytes, &field)) {
        char found[LINE_BYTES];
        uint64_t values[2] = {0, 0}, found_tid = 0;
        if (field.number != 2)
            continue;
        sample_take(&field, found, values, &found_tid);
        if ((line == NULL || strcmp(found, line) == 0) && (tid == 0 || tid == found_tid))
            sum += values[value];
    }
    return sum;
}

/* ---- making ---- */

static const char *const function_names[] = {"main", "parse", "print", NULL, "[jit]"};

static const char *frame_name(void *context, uint32_t frame)
{
    const struct profile_frame *at = profile_frame_at(&profile, frame);
    (void)context;
    if (at->module == FRAME_OF_THREAD || at->module == FRAME_OF_LABEL)
        return stack_text(&builder, at->address);
    return function_names[at->address % 5];
}

static struct named_profile named(void)
{
    return (struct named_profile){
        .profile = &profile, .names = {frame_name, NULL}, .unit_ns = UNIT_NS};
}

static void prepare(void)
{
    static const char *const texts[] = {"main", "work/7", "work/8", "phase"};
    arena_init(&arena, 0);
    arena_init(&scratch, 0);
    app_memory_init(&memory, &arena);
    modules_init(&modules, &arena, &memory, 0);
    unwinder_init(&unwinder, &no_library, &modules, &memory, &arena);
    profile_init(&profile, &arena);
    REQUIRE(stack_builder_init(&builder, &modules, &unwinder, &profile, CONFIG_THREADS_TID,
                               &arena) == 0);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        strcpy(sequence_append(&builder.texts), texts[i]);
}

static void done(void)
{
    free(file);
    file = NULL;
    arena_destroy(&arena);
    arena_destroy(&scratch);
}

/* A stack of THREAD (an index of texts), in the label "phase" or not, and of functions at addresses
 * that are in no module. */
static void add(uint32_t thread, uint32_t tid, bool labelled, const uint64_t *addresses,
                size_t count, uint64_t weight_ns)
{
    uint32_t frames[64];
    size_t depth = 0;
    frames[depth++] = profile_frame(&profile, FRAME_OF_THREAD, thread | (uint64_t)tid << 32);
    if (labelled)
        frames[depth++] = profile_frame(&profile, FRAME_OF_LABEL, 3);
    for (size_t i = 0; i < count; i++)
        frames[depth++] = profile_frame(&profile, FRAME_OF_UNKNOWN, addresses[i]);
    REQUIRE(profile_add(&profile, frames, depth, weight_ns, NULL) == 0);
}

#define ADD(thread, tid, labelled, weight_ns, ...)                                                 \
    add(thread, tid, labelled, (uint64_t[]){__VA_ARGS__},                                          \
        sizeof(uint64_t[]){__VA_ARGS__} / sizeof(uint64_t), weight_ns)

/* Writes the profile into a file, and reads that back. */
static void write_pprof(void)
{
    char path[] = "/tmp/test_pprof_profile.XXXXXX";
    const struct named_profile whole = named();
    const struct pprof_facts facts = {.period_ns = UNIT_NS, .comment = "test"};
    REQUIRE(mkdtemp(path) != NULL);
    int directory = open(path, O_RDONLY | O_DIRECTORY);
    REQUIRE(outfile_init(&out, directory, "p") == 0 && outfile_begin(&out) == 0);
    CHECK_I64(pprof_profile_write(&whole, &builder, &facts, &out, &scratch), 0);
    CHECK_I64(outfile_commit(&out), 0);
    outfile_close(&out);
    char name[sizeof path + 2];
    snprintf(name, sizeof name, "%s/p", path);
    file = unpacked_file(name, &file_bytes);
    close(directory);
    rmdir(path);
    file_take();
}

/* Each stack of the folded file, in which TIDs are parts of names, has its count in the pprof file.
 */
static void compare_with_folded(void)
{
    static char text[100000];
    const struct named_profile whole = named();
    uint64_t sum = 0;
    REQUIRE(outfile_init(&out, AT_FDCWD, "/tmp/test_pprof_profile.folded") == 0);
    REQUIRE(outfile_begin(&out) == 0);
    CHECK_I64(folded_write(&whole, &out, &scratch), 0);
    memcpy(text, out.buffer, out.buffered);
    text[out.buffered] = '\0';
    outfile_abort(&out);
    outfile_close(&out);
    for (char *line = strtok(text, "\n"); line != NULL; line = strtok(NULL, "\n")) {
        char *space = strrchr(line, ' ');
        uint64_t count = strtoull(space, NULL, 10), tid = 0;
        *space = '\0';
        char *slash = strchr(line, '/');
        if (slash != NULL) {
            tid = strtoull(slash + 1, NULL, 10);
            memmove(slash, strchr(slash, ';'), strlen(strchr(slash, ';')) + 1);
        }
        CHECK_U64(samples_sum(line, 0, tid), count);
        sum += count;
    }
    CHECK_U64(samples_sum(NULL, 0, 0), sum);
}

/* ---- tests ---- */

TEST(threads_and_labels_are_labels)
{
    prepare();
    ADD(0, 0, false, 5000, 0, 1);
    ADD(1, 7, true, 2000, 0, 1);
    ADD(2, 8, false, 3000, 0, 1);
    write_pprof();
    CHECK_U64(samples_sum("main;main;parse", 0, 0), 5);
    CHECK_U64(samples_sum("work;phase;main;parse", 0, 7), 2);
    CHECK_U64(samples_sum("work;main;parse", 1, 8), 3000);
    CHECK_U64(samples_sum(NULL, 1, 0), 10000);
    done();
}

/* One name at several addresses: weights stay, and counts add up to that of the name's stack. */
TEST(counts_agree_with_the_folded_file)
{
    srandom(5);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t weight_ns = 0;
        prepare();
        for (unsigned i = 0; i < 60; i++) {
            uint64_t weight = (uint64_t)random() % (round % 2 == 0 ? 700 : 9000);
            uint32_t thread = (uint32_t)random() % 3;
            ADD(thread, thread == 0 ? 0 : thread + 6, random() % 2 == 0, weight,
                (uint64_t)random() % 10, (uint64_t)random() % 10, (uint64_t)random() % 10);
            weight_ns += weight;
        }
        write_pprof();
        compare_with_folded();
        CHECK_U64(samples_sum(NULL, 1, 0), weight_ns);
        done();
    }
}

TEST(nameless_code_that_calls_such_is_one_frame)
{
    prepare();
    ADD(0, 0, false, 1000, 0, 4, 9, 14, 1);
    ADD(0, 0, false, 1000, 0, 4, 9);
    write_pprof();
    CHECK_U64(samples_sum("main;main;[jit];parse", 0, 0), 1);
    CHECK_U64(samples_sum("main;main;[jit]", 0, 0), 1);
    done();
}

/* A location's mapping is that of /proc/self/maps in which its address lies, or, once its file is
 * gone from there, that which the file was linked for. */
TEST(locations_lie_in_mappings)
{
    for (int gone = 0; gone < 2; gone++) {
        prepare();
        REQUIRE(modules_scan(&modules) == 0);
        uint64_t code = (uint64_t)(uintptr_t)prepare;
        const struct region *region = modules_find(&modules, code);
        REQUIRE(region != NULL && region->bias_known);
        struct region kept = *region;
        uint64_t linked = region_link_address(region, code);
        uint32_t frame = profile_frame(&profile, region->module, linked);
        REQUIRE(profile_add(&profile, &frame, 1, 1000, NULL) == 0);
        if (gone)
            modules_map(&modules, kept.start, kept.end - kept.start, 0, 0, "");
        write_pprof();
        struct field location = message_find(4, (uint64_t)frame + 1);
        struct field mapping = message_find(3, value_of(&location, 2));
        REQUIRE(mapping.bytes != NULL);
        CHECK_U64(value_of(&location, 3), gone ? linked : code);
        CHECK(value_of(&mapping, 2) <= value_of(&location, 3));
        CHECK(value_of(&location, 3) < value_of(&mapping, 3));
        CHECK_U64(value_of(&location, 3) - value_of(&mapping, 2) + value_of(&mapping, 4),
                  code - kept.start + kept.file_offset);
        CHECK(strstr(strings[value_of(&mapping, 5)], "test_pprof_profile") != NULL);
        CHECK_U64(strlen(strings[value_of(&mapping, 6)]), 40); /* SHA-1, the linker's default */
        done();
    }
}

TEST(out_of_memory_is_an_error)
{
    unsigned failed = 0;
    for (int nth = 1; nth < 40; nth++) {
        const struct named_profile whole = named();
        const struct pprof_facts facts = {.comment = ""};
        prepare();
        ADD(0, 0, false, 5000, 0, 1);
        REQUIRE(outfile_init(&out, AT_FDCWD, "/tmp/test_pprof_profile.none") == 0);
        REQUIRE(outfile_begin(&out) == 0);
        scratch.fail_countdown = nth;
        int error = pprof_profile_write(&whole, &builder, &facts, &out, &scratch);
        CHECK(error == 0 || error == -ENOMEM);
        CHECK_I64(out.error, error);
        failed += error != 0;
        outfile_abort(&out);
        outfile_close(&out);
        done();
    }
    CHECK(failed >= 15);
}
