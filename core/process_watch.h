/*
 * What of the process perf's records would tell, and timers' do not: that it has mapped other
 * libraries, and that it has become another program. Found out by looking, once a turn.
 *
 * Thread safety: one task at a time per struct process_watch; the helper.
 */
#ifndef SELFSAMPLE_CORE_PROCESS_WATCH_H
#define SELFSAMPLE_CORE_PROCESS_WATCH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "app_memory.h"

struct process_watch {
    const struct app_memory *memory;
    uint64_t linker_list; /* address of libc's struct r_debug (link.h); 0: none */
    pid_t app_pid;        /* by /proc; -1: it can't tell */
    uint64_t libraries;   /* stands for the list when it was last looked at */
    uint64_t own_layout;  /* of the memory that is shared with the app, until that execs */
    uint64_t looked_ns;   /* for an exec */
};

void process_watch_init(struct process_watch *watch, const struct app_memory *memory,
                        uint64_t linker_list, pid_t app_pid);

/* Have libraries come or gone since this was last asked? The first time: yes. */
bool process_watch_libraries(struct process_watch *watch);

/* Is the app another program by now? Where /proc does not tell: no. Looks every 50 ms, or AT_ONCE.
 */
bool process_watch_exec(struct process_watch *watch, bool at_once);

/*
 * A number that stands for where the parts of a process's memory are (its program, heap, stack,
 * arguments), out of BYTES of its stat file (proc(5)); 0: it does not tell. Two processes that
 * share their memory have the same; after an exec it is another, but for a program that runs itself
 * again with the same arguments where addresses are not random.
 */
uint64_t process_watch_layout(const char *stat, size_t bytes);

#endif
