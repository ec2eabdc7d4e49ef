/*
 * Writes pprof files through protobuf-c and gzip. Runs in the helper, and in the selfsample
 * command.
 *
 * A message in protobuf's encoding may be given in parts: the bytes of the whole are those of its
 * parts one behind the other. So each piece is packed as a Profile that has only this piece.
 * Packing allocates nothing. What protobuf-c references in libc is renamed to the functions at the
 * end of this file where it is linked into the library (scripts/pprof.mk).
 */
#include "pprof.h"

#include <errno.h>
#include <string.h>

#include "pprof.pb-c.h"

#include "arena.h"
#include "utf8.h"

/* In the order of their numbers; those of labels' keys are enum pprof_string. */
static const char *const first_strings[] = {"",       "samples", "count", "cpu",    "nanoseconds",
                                            "thread", "tid",     "label", "program"};
enum { SAMPLES = 1, COUNT, CPU, NANOSECONDS };

/* A ProtobufCBuffer that compresses. */
struct packing {
    ProtobufCBuffer base;
    struct pprof *pprof;
};

/* What protobuf-c would call of libc. */
void *pprof_malloc(size_t bytes);
void pprof_free(void *memory);
int pprof_strcmp(const char *one, const char *other);
_Noreturn void pprof_assertion_failed(void);
_Noreturn void pprof_stack_broken(void);

static void packed_take(ProtobufCBuffer *buffer, size_t length, const uint8_t *bytes)
{
    struct pprof *pprof = ((struct packing *)(void *)buffer)->pprof;
    pprof->bytes += length;
    gzip_put(pprof->gzip, bytes, length);
}

static void part_put(struct pprof *pprof, const Pprof__Profile *part)
{
    struct packing packing = {{packed_take}, pprof};
    pprof__profile__pack_to_buffer(part, &packing.base);
}

static void header_put(struct pprof *pprof, const struct pprof_facts *facts, uint64_t comment)
{
    Pprof__ValueType samples = PPROF__VALUE_TYPE__INIT, cpu = PPROF__VALUE_TYPE__INIT;
    Pprof__ValueType *types[] = {&samples, &cpu};
    int64_t comments[] = {(int64_t)comment};
    samples.type = SAMPLES;
    samples.unit = COUNT;
    cpu.type = CPU;
    cpu.unit = NANOSECONDS;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_sample_type = 2;
    part.sample_type = types;
    part.period_type = &cpu;
    part.period = (int64_t)facts->period_ns;
    part.time_nanos = (int64_t)facts->began_ns;
    part.duration_nanos = (int64_t)facts->duration_ns;
    part.n_comment = 1;
    part.comment = comments;
    part_put(pprof, &part);
}

int pprof_begin(struct pprof *pprof, const struct pprof_facts *facts, struct gzip_sink sink,
                struct arena *arena)
{
    *pprof = (struct pprof){.gzip = gzip_open(arena, sink), .arena = arena};
    if (pprof->gzip == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < sizeof first_strings / sizeof first_strings[0]; i++)
        pprof_string(pprof, first_strings[i]);
    header_put(pprof, facts, pprof_string(pprof, facts->comment));
    return 0;
}

/* TEXT as UTF-8, which it nearly always is. */
static char *cleaned(struct pprof *pprof, const char *text)
{
    static char refusal[] = "[no memory for this name]";
    if (utf8_is_clean(text))
        return (char *)(uintptr_t)text; /* protobuf-c's structs want it so; it only reads */
    char *copy = arena_copy_text(pprof->arena, text, strlen(text));
    if (copy == NULL)
        return refusal;
    utf8_clean(copy);
    return copy;
}

uint64_t pprof_string(struct pprof *pprof, const char *text)
{
    char *strings[] = {cleaned(pprof, text)};
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_string_table = 1;
    part.string_table = strings;
    part_put(pprof, &part);
    return pprof->strings++;
}

void pprof_mapping(struct pprof *pprof, const struct pprof_mapping *mapping)
{
    Pprof__Mapping packed = PPROF__MAPPING__INIT, *list[] = {&packed};
    packed.id = mapping->id;
    packed.memory_start = mapping->start;
    packed.memory_limit = mapping->limit;
    packed.file_offset = mapping->file_offset;
    packed.filename = (int64_t)pprof_string(pprof, mapping->file);
    if (mapping->build_id[0] != '\0')
        packed.build_id = (int64_t)pprof_string(pprof, mapping->build_id);
    packed.has_functions = 1;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_mapping = 1;
    part.mapping = list;
    part_put(pprof, &part);
}

void pprof_function(struct pprof *pprof, uint64_t id, const char *name)
{
    Pprof__Function packed = PPROF__FUNCTION__INIT, *list[] = {&packed};
    packed.id = id;
    packed.name = (int64_t)pprof_string(pprof, name);
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_function = 1;
    part.function = list;
    part_put(pprof, &part);
}

void pprof_location(struct pprof *pprof, uint64_t id, uint64_t mapping, uint64_t address,
                    const uint64_t *functions, size_t count)
{
    Pprof__Line lines[PPROF_LINES_MAX], *line_list[PPROF_LINES_MAX];
    for (size_t i = 0; i < count; i++) {
        pprof__line__init(&lines[i]);
        lines[i].function_id = functions[i];
        line_list[i] = &lines[i];
    }
    Pprof__Location packed = PPROF__LOCATION__INIT, *list[] = {&packed};
    packed.id = id;
    packed.mapping_id = mapping;
    packed.address = address;
    packed.n_line = count;
    packed.line = line_list;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_location = 1;
    part.location = list;
    part_put(pprof, &part);
}

void pprof_sample(struct pprof *pprof, const uint64_t *locations, size_t count, uint64_t samples,
                  uint64_t cpu_ns, const struct pprof_label *labels, size_t label_count)
{
    int64_t values[] = {(int64_t)samples, (int64_t)cpu_ns};
    Pprof__Label packed_labels[PPROF_LABELS_MAX], *label_list[PPROF_LABELS_MAX];
    for (size_t i = 0; i < label_count; i++) {
        pprof__label__init(&packed_labels[i]);
        packed_labels[i].key = (int64_t)labels[i].key;
        packed_labels[i].str = (int64_t)labels[i].string;
        packed_labels[i].num = labels[i].number;
        label_list[i] = &packed_labels[i];
    }
    Pprof__Sample packed = PPROF__SAMPLE__INIT, *list[] = {&packed};
    packed.n_location_id = count;
    packed.location_id = (uint64_t *)(uintptr_t)locations;
    packed.n_value = 2;
    packed.value = values;
    packed.n_label = label_count;
    packed.label = label_list;
    Pprof__Profile part = PPROF__PROFILE__INIT;
    part.n_sample = 1;
    part.sample = list;
    part_put(pprof, &part);
}

void pprof_end(struct pprof *pprof)
{
    gzip_close(pprof->gzip);
}

/* Packing needs no memory; whatever asks for some gets none. */
void *pprof_malloc(size_t bytes)
{
    (void)bytes;
    return NULL;
}

void pprof_free(void *memory)
{
    (void)memory;
}

int pprof_strcmp(const char *one, const char *other)
{
    while (*one == *other && *one != '\0') {
        one++;
        other++;
    }
    return (unsigned char)*one - (unsigned char)*other;
}

void pprof_assertion_failed(void)
{
    __builtin_trap();
}

void pprof_stack_broken(void)
{
    __builtin_trap();
}
