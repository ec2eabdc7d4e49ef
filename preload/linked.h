/* What the linker has loaded, where /proc can't tell: see core/linked.h. In the constructor. */
#ifndef SELFSAMPLE_PRELOAD_LINKED_H
#define SELFSAMPLE_PRELOAD_LINKED_H

#include "../core/linked.h"

struct r_debug; /* link.h */

/* Fills LINKED, unless /proc lists the process's memory. Changes errno. */
void linked_note(struct linked *linked);

/* Where the linker keeps its list of libraries; NULL: nowhere that is known. */
const struct r_debug *linked_list(void);

#endif
