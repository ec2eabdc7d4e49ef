/*
 * The tree of stacks, and the tables by which its names and nodes are found: the one file that
 * knows uthash. Runs in the selfsample command, never in a profiled program. It frees nothing: the
 * process ends when its view is printed.
 */
#include "stacks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HASH_FUNCTION         HASH_JEN
#define uthash_fatal(message) ((void)memory_or_end(NULL))
#include <uthash.h>

struct name_entry {
    struct name name;
    UT_hash_handle hh;
};

struct node_entry {
    struct node node;
    UT_hash_handle hh;
};

struct stack_index {
    struct name_entry *names;
    struct node_entry *nodes;
    size_t names_room;
};

void *memory_or_end(void *memory)
{
    if (memory == NULL) {
        fprintf(stderr, "selfsample: out of memory\n");
        exit(1);
    }
    return memory;
}

void stacks_open(struct stacks *stacks)
{
    *stacks = (struct stacks){0};
    stacks->index = memory_or_end(calloc(1, sizeof *stacks->index));
    stacks->root = memory_or_end(calloc(1, sizeof *stacks->root));
}

static void names_append(struct stacks *stacks, struct name *name)
{
    struct stack_index *index = stacks->index;
    if (stacks->names_count == index->names_room) {
        index->names_room = index->names_room ? 2 * index->names_room : 256;
        stacks->names =
            memory_or_end(reallocarray(stacks->names, index->names_room, sizeof(struct name *)));
    }
    stacks->names[stacks->names_count++] = name;
}

struct name *stacks_name(struct stacks *stacks, const char *text, size_t length)
{
    struct name_entry *entry;
    HASH_FIND(hh, stacks->index->names, text, length, entry);
    if (entry != NULL)
        return &entry->name;
    entry = memory_or_end(calloc(1, sizeof *entry));
    char *copy = memory_or_end(malloc(length + 1));
    memcpy(copy, text, length);
    copy[length] = 0;
    entry->name = (struct name){.text = copy, .length = length, .number = -1};
    HASH_ADD_KEYPTR(hh, stacks->index->names, entry->name.text, length, entry);
    names_append(stacks, &entry->name);
    return &entry->name;
}

struct node *stacks_child(struct stacks *stacks, struct node *parent, struct name *name)
{
    struct {
        struct node *parent;
        struct name *name;
    } key = {parent, name};
    struct node_entry *entry;
    /* Files stand depth first: most often it is the branch that was made last. */
    if (parent->first_child != NULL && parent->first_child->name == name)
        return parent->first_child;
    HASH_FIND(hh, stacks->index->nodes, &key, sizeof key, entry);
    if (entry != NULL)
        return &entry->node;
    entry = memory_or_end(calloc(1, sizeof *entry));
    entry->node = (struct node){
        .parent = parent, .name = name, .next = parent->first_child, .depth = parent->depth + 1};
    parent->first_child = &entry->node;
    stacks->nodes++;
    HASH_ADD_KEYPTR(hh, stacks->index->nodes, &entry->node.parent, sizeof key, entry);
    return &entry->node;
}

bool stacks_add(struct stacks *stacks, struct node *node, int side, uint64_t count)
{
    uint64_t all;
    if (__builtin_add_overflow(stacks->root->total[side], count, &all))
        return false;
    node->self[side] += count;
    for (; node != NULL; node = node->parent)
        node->total[side] += count;
    return true;
}

static int by_weight(const void *left, const void *right)
{
    const struct node *a = *(const struct node *const *)left;
    const struct node *b = *(const struct node *const *)right;
    unsigned __int128 weight_a = (unsigned __int128)a->total[0] + a->total[1];
    unsigned __int128 weight_b = (unsigned __int128)b->total[0] + b->total[1];
    if (weight_a != weight_b)
        return weight_a < weight_b ? 1 : -1;
    return strcmp(a->name->text, b->name->text);
}

static void children_sort(struct node *node, struct node **list)
{
    size_t count = 0;
    for (struct node *child = node->first_child; child != NULL; child = child->next)
        list[count++] = child;
    if (count < 2)
        return;
    qsort(list, count, sizeof *list, by_weight);
    node->first_child = list[0];
    for (size_t i = 0; i < count; i++)
        list[i]->next = i + 1 < count ? list[i + 1] : NULL;
}

void stacks_sort(struct stacks *stacks)
{
    struct node **list = memory_or_end(calloc(stacks->nodes + 1, sizeof(struct node *)));
    for (struct node *node = stacks->root; node != NULL; node = stacks_next(node, true))
        children_sort(node, list);
    free(list);
}

struct node *stacks_next(const struct node *node, bool descend)
{
    if (descend && node->first_child != NULL)
        return node->first_child;
    while (node != NULL && node->next == NULL)
        node = node->parent;
    return node == NULL ? NULL : node->next;
}

void stacks_walk(const struct stacks *stacks, struct stacks_visitor visitor)
{
    struct node *node = stacks->root->first_child;
    while (node != NULL) {
        visitor.enter(visitor.context, node);
        if (node->first_child != NULL) {
            node = node->first_child;
            continue;
        }
        while (node->parent != NULL) {
            if (visitor.leave != NULL)
                visitor.leave(visitor.context, node);
            if (node->next != NULL)
                break;
            node = node->parent;
        }
        node = node->next; /* the root of all has none */
    }
}
