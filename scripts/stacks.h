/*
 * Folded profiles in memory: the tree of all distinct stacks, with the counts of one profile or,
 * for a difference, of two. What the views of the command (views.h) are made from. An ordinary part
 * of an ordinary program: it ends the process with a line where memory runs out.
 *
 * Memory grows with the distinct stacks, not with the lines read. Nothing here recurses, so a stack
 * may have any number of frames.
 */
#ifndef SELFSAMPLE_SCRIPTS_STACKS_H
#define SELFSAMPLE_SCRIPTS_STACKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SIDES = 2 };

/* A function, wherever it stands. SELF, TOTAL and ON_PATH are for functions_count alone. */
struct name {
    const char *text;
    size_t length;
    uint64_t self[SIDES], total[SIDES];
    size_t on_path; /* how often it stands in the stack that is being looked at */
    long number;    /* for who numbers them; -1 at first */
};

/* A stack: this frame under those of its parents. PARENT and NAME are its key, side by side. */
struct node {
    struct node *parent; /* NULL: the root of all, which is no frame and has no name */
    struct name *name;
    struct node *first_child, *next;
    size_t depth; /* 0: the root of all */
    uint64_t self[SIDES], total[SIDES];
};

struct stacks {
    struct node *root; /* its totals are those of everything */
    size_t nodes;
    struct name **names; /* in the order in which they were met */
    size_t names_count;
    struct stack_index *index;
};

void stacks_open(struct stacks *stacks);

/* The name of these bytes. */
struct name *stacks_name(struct stacks *stacks, const char *text, size_t length);

/* The stack of NAME under PARENT. */
struct node *stacks_child(struct stacks *stacks, struct node *parent, struct name *name);

/* Counts COUNT more for NODE on SIDE. False where the sum would not fit into 64 bits. */
bool stacks_add(struct stacks *stacks, struct node *node, int side, uint64_t count);

/* Puts the branches of each node in order: the heavier one first (of both sides together), those
 * of equal weight by their names' bytes. */
void stacks_sort(struct stacks *stacks);

/* Depth first: what follows NODE, without what is under it where not DESCEND; NULL at the end. */
struct node *stacks_next(const struct node *node, bool descend);

/* The same for a walk that wants to know of each node's end as well: calls ENTER before what is
 * under a node and LEAVE (may be NULL) behind it. The root of all is left out. */
struct stacks_visitor {
    void (*enter)(void *context, struct node *node);
    void (*leave)(void *context, struct node *node);
    void *context;
};
void stacks_walk(const struct stacks *stacks, struct stacks_visitor visitor);

/* Memory that is there, or the process ends. */
void *memory_or_end(void *memory);

#endif
