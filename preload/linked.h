/* What the linker has loaded, where /proc can't tell: see core/linked.h. In the constructor. */
#ifndef SELFSAMPLE_PRELOAD_LINKED_H
#define SELFSAMPLE_PRELOAD_LINKED_H

#include "../core/linked.h"

/* Fills LINKED, unless /proc lists the process's memory. Changes errno. */
void linked_note(struct linked *linked);

/* Where the linker keeps its list, see core/process_watch.h; 0: nowhere that is known. */
uint64_t linked_list_address(void);

#endif
