/*
 * Helpers of processes that are being profiled, and what these say of themselves in their
 * descriptor 0 (core/status.h). Speaking with a helper is a signal to it, of which the program sees
 * nothing, and its answer there. Ordinary code: libc, one thread.
 */
#ifndef SELFSAMPLE_SCRIPTS_HELPERS_H
#define SELFSAMPLE_SCRIPTS_HELPERS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum helper_found { NO_HELPER, A_HELPER, NOT_PERMITTED };

/* Is PID a helper, of PARENT if that is not 0? */
enum helper_found helper_judge(pid_t pid, pid_t parent);

/* The helper that PID is or has. Ends the process with a line where there is none. */
pid_t helper_find(pid_t pid);

/* What a helper has said. Values have no control characters in them. */
struct helper_words {
    char program[256], engine[64];
    bool is_folded, is_us, paused;
    uint64_t rate_hz, roots, samples, cpu_ns, snapshots, looks;
    long look_fd; /* the helper's; -1: none */
    char error[128], look_error[128];
    char file[PATH_MAX], out[PATH_MAX];
};

/* A descriptor of what the helper says, which also tells its last words once it has ended. -1: it
 * is gone. */
int helper_words_open(pid_t helper);

/* Reads them. False where they are just being written; then a next try will do. */
bool helper_words_read(int fd, struct helper_words *words);

/* The helpers there are (of PARENT if that is not 0), *COUNT of them, and how many *OTHERS may not
 * be asked; to be freed. */
pid_t *helpers_list(pid_t parent, size_t *count, size_t *others);

/* Waits as long as one waits between two looks at an answer. */
void answer_pause(void);

#endif
