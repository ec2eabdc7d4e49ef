/*
 * Helpers of processes that are being profiled, and what these say of themselves in their
 * descriptor 0 (core/status.h). Speaking with a helper is a signal to it, or where it is a thread
 * of the program a word in its descriptor 1 (core/requests.h), of both of which the program sees
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

/* Is PID, a process or a thread, a helper, and of the process APP if that is not 0? */
enum helper_found helper_judge(pid_t pid, pid_t app);

/* The process that HELPER is the helper of; 0 where it is gone. */
pid_t helper_app(pid_t helper);

/* The helper that ARGUMENT means: that of a process or the helper itself, by its number, or that of
 * the one process that runs a program of this name. Ends the process with a line where there is
 * none. */
pid_t helper_of_argument(const char *argument);

/* What a helper has said. Values have no control characters in them. */
struct helper_words {
    char program[256], engine[64];
    bool is_folded, is_us, paused;
    bool out_is_had; /* else it is a name that others may take first */
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

/* Opens them, reads them, and closes them. False where there is nothing to be read. */
bool helper_words_get(pid_t helper, struct helper_words *words);

enum helper_request { ASK_SNAPSHOT, ASK_LOOK, ASK_PAUSE, ASK_RESUME };

/* Asks for it; the answer is in what the helper says. False where it is gone, or with another
 * errno. */
bool helper_ask(pid_t helper, enum helper_request request);

/* The helpers there are (of APP if that is not 0), *COUNT of them, and how many *OTHERS may not
 * be asked; to be freed. */
pid_t *helpers_list(pid_t app, size_t *count, size_t *others);

/* Waits as long as one waits between two looks at an answer. */
void answer_pause(void);

#endif
