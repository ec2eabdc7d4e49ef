/*
 * Lines for the user, on a file descriptor that may be anything: a terminal, a file, a full pipe.
 *
 * Thread safety: keeps no state. One line is one system call, so lines of several writers stay
 * whole.
 */
#ifndef SELFSAMPLE_CORE_MESSAGE_H
#define SELFSAMPLE_CORE_MESSAGE_H

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

#endif
