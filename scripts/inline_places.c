/*
 * Reads what core/places.c writes. Nothing in the file is trusted: numbers that refer to something
 * must refer to something that came before.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "inline.h"
#include "places.h"

/* A line as it is read; AT goes through it. */
struct line {
    char *text;
    size_t size;
    char *at;
};

/* False at the end of the file and for a line without an end. */
static bool line_next(struct line *line, FILE *file)
{
    ssize_t length = getline(&line->text, &line->size, file);
    if (length <= 0 || line->text[length - 1] != '\n')
        return false;
    line->text[length - 1] = 0;
    line->at = line->text;
    return strlen(line->text) == (size_t)length - 1;
}

/* The next word of the line, cut off it; "" at its end. */
static char *word_take(struct line *line)
{
    char *word = line->at;
    char *end = strchr(word, ' ');
    if (end == NULL) {
        line->at = word + strlen(word);
    } else {
        *end = 0;
        line->at = end + 1;
    }
    return word;
}

static bool number_take(struct line *line, int base, uint64_t *number)
{
    const char *word = word_take(line);
    char *end;
    errno = 0;
    *number = strtoull(word, &end, base);
    return *word != 0 && *word != '-' && *word != '+' && *end == 0 && errno == 0;
}

/* A number below COUNT, or "-" for NOWHERE. */
static bool reference_take(struct line *line, uint32_t count, uint32_t *reference)
{
    uint64_t number;
    *reference = NOWHERE;
    if (line->at[0] == '-' && (line->at[1] == ' ' || line->at[1] == 0)) {
        word_take(line);
        return true;
    }
    if (!number_take(line, 10, &number) || number >= count)
        return false;
    *reference = (uint32_t)number;
    return true;
}

static const char *text_keep(struct arena *arena, const char *text)
{
    return arena_copy_text(arena, text, strlen(text));
}

static bool module_take(struct place_list *list, struct line *line, struct arena *arena)
{
    struct place_module *module = sequence_append(&list->modules);
    if (module == NULL || !number_take(line, 10, &module->inode))
        return false;
    module->build_id = text_keep(arena, word_take(line));
    module->path = text_keep(arena, line->at);
    return module->build_id != NULL && module->path != NULL;
}

static bool frame_take(struct place_list *list, struct line *line, struct arena *arena)
{
    struct place_frame *frame = sequence_append(&list->frames);
    if (frame == NULL || !reference_take(line, list->modules.count, &frame->module) ||
        !number_take(line, 16, &frame->address))
        return false;
    frame->name = text_keep(arena, line->at);
    return frame->name != NULL;
}

/* What may stand behind the weight. No more than 1000 s: sums of it must not overflow. */
static bool owed_take(struct line *line, int64_t *owed_ns)
{
    uint64_t number = 0;
    bool is_ahead = line->at[0] == '-';
    line->at += is_ahead;
    *owed_ns = 0;
    if (line->at[0] == 0)
        return !is_ahead;
    if (!number_take(line, 10, &number) || number > 1000000000000u)
        return false;
    *owed_ns = is_ahead ? -(int64_t)number : (int64_t)number;
    return true;
}

static bool node_take(struct place_list *list, struct line *line)
{
    uint32_t before = list->nodes.count;
    struct place_node *node = sequence_append(&list->nodes);
    return node != NULL && reference_take(line, before, &node->parent) &&
           reference_take(line, list->frames.count, &node->frame) && node->frame != NOWHERE &&
           number_take(line, 10, &node->weight_ns) && owed_take(line, &node->owed_ns);
}

static bool header_take(struct place_list *list, struct line *line, FILE *file)
{
    return line_next(line, file) && strcmp(line->text, PLACES_TITLE) == 0 &&
           line_next(line, file) && strcmp(word_take(line), "folded") == 0 &&
           number_take(line, 10, &list->folded_bytes) && line_next(line, file) &&
           strcmp(word_take(line), "unit_ns") == 0 && number_take(line, 10, &list->unit_ns) &&
           list->unit_ns != 0 && list->unit_ns <= 1000000000u;
}

/* False at a line that cannot be understood, and where the last one is missing. */
static bool lines_take(struct place_list *list, struct line *line, FILE *file, struct arena *arena)
{
    while (line_next(line, file)) {
        const char *kind = word_take(line);
        bool taken;
        if (strcmp(kind, "module") == 0)
            taken = module_take(list, line, arena);
        else if (strcmp(kind, "frame") == 0)
            taken = frame_take(list, line, arena);
        else if (strcmp(kind, "node") == 0)
            taken = node_take(list, line);
        else
            return strcmp(kind, "end") == 0;
        if (!taken)
            return false;
    }
    return false;
}

const char *places_read(struct place_list *list, FILE *file, struct arena *arena)
{
    struct line line = {0};
    const char *wrong = NULL;
    *list = (struct place_list){0};
    sequence_init(&list->modules, arena, sizeof(struct place_module));
    sequence_init(&list->frames, arena, sizeof(struct place_frame));
    sequence_init(&list->nodes, arena, sizeof(struct place_node));
    if (!header_take(list, &line, file))
        wrong = "not a file of places of this version";
    else if (!lines_take(list, &line, file, arena))
        wrong = "damaged";
    free(line.text);
    return wrong;
}
