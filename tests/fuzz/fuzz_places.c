/* Files of places (core/places.h) out of any bytes, through their reader in selfsample-inline: all
 * numbers that it gives must be of something. libFuzzer's entry. */
#include <stdio.h>
#include <stdlib.h>

#include "scripts/inline_places.c"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(bool condition)
{
    if (!condition)
        abort();
}

static void list_check(const struct place_list *list)
{
    for (uint32_t i = 0; i < list->frames.count; i++) {
        const struct place_frame *frame = sequence_at(&list->frames, i);
        require(frame->module == NOWHERE || frame->module < list->modules.count);
    }
    for (uint32_t i = 0; i < list->nodes.count; i++) {
        const struct place_node *node = sequence_at(&list->nodes, i);
        require(node->parent == NOWHERE || node->parent < i);
        require(node->frame < list->frames.count);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct place_list list;
    struct arena arena;
    FILE *file = bytes > 0 ? fmemopen((void *)(uintptr_t)data, bytes, "r") : NULL;
    if (file == NULL)
        return 0;
    arena_init(&arena, 64u << 20);
    if (places_read(&list, file, &arena) == NULL)
        list_check(&list);
    arena_destroy(&arena);
    fclose(file);
    return 0;
}
