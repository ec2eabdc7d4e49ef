/*
 * Lines for the user, on a file descriptor that may be anything: a terminal, a file, a full pipe.
 *
 * Thread safety: keeps no state. One line is one system call, so lines of several writers stay
 * whole.
 */
#ifndef SELFSAMPLE_CORE_MESSAGE_H
#define SELFSAMPLE_CORE_MESSAGE_H

#include <stdbool.h>
#include <stdint.h>

#define MESSAGE_WAIT_MS 100
#define MESSAGE_BYTES   4096u /* PIPE_BUF: what a pipe takes as a whole; longer lines are cut */

/*
 * Writes LINE and a newline. LINE comes without one at its end, but may hold several lines that
 * belong together. Waits at most MESSAGE_WAIT_MS for FD to take it.
 *
 * Returns 0; -EAGAIN where FD took nothing in that time; -EPIPE where nobody reads, -EFBIG where FD
 * is a file that RLIMIT_FSIZE lets not grow (both found before the write, so that neither SIGPIPE
 * nor SIGXFSZ is raised in the app); else -errno. FD's flags are never touched:
 * its description is shared with other processes.
 */
int message_write(int fd, const char *line);

/* The file that stderr is when the program begins. Later the same descriptor may be any file of the
 * program's: a daemon closes its first three, and the next it opens get these numbers. */
struct message_place {
    bool is_known; /* false: nothing is there */
    uint64_t device, inode;
};

/* What stderr is now. */
struct message_place message_place_now(void);

/* Is stderr still that file? Else no line may go there. */
bool message_place_holds(const struct message_place *place);

/* message_write to stderr; -EBADF where that is another file by now. */
int message_tell(const struct message_place *place, const char *line);

#endif
