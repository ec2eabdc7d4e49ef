/*
 * The program under the command: started, waited for, signals passed on, its way of ending
 * repeated.
 *
 * The command blocks every signal and takes them from a signalfd, in one loop with the reports; the
 * program gets the mask and the dispositions with which the command was started. Both are in one
 * process group, so what a terminal sends (Ctrl-C, Ctrl-Z, hang-up) reaches the program by itself;
 * only what was sent to the command alone is passed on.
 */
#include "command.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* What is inherited, as it was before the command changed it for itself. */
struct inherited {
    sigset_t mask;
    struct sigaction child_action;
};

/* In the child. Only what POSIX allows between fork and exec; the cause of a failure goes to the
 * pipe. */
_Noreturn static void program_exec(char **argv, const struct inherited *inherited, int failure_fd)
{
    sigaction(SIGCHLD, &inherited->child_action, NULL);
    sigprocmask(SIG_SETMASK, &inherited->mask, NULL);
    execvp(argv[0], argv);
    int error = errno;
    ssize_t written = write(failure_fd, &error, sizeof error);
    (void)written;
    _exit(STATUS_NOT_FOUND);
}

/* Returns the pid, or -1 with the error of fork or exec in *ERROR. */
static pid_t program_start(char **argv, const struct inherited *inherited, int *error)
{
    int failure[2];
    if (pipe2(failure, O_CLOEXEC) != 0) {
        *error = errno;
        return -1;
    }
    pid_t pid = fork();
    if (pid == 0)
        program_exec(argv, inherited, failure[1]);
    *error = pid < 0 ? errno : 0;
    close(failure[1]);
    if (pid > 0) {
        /* End of file means that exec closed the other end: the program runs. */
        ssize_t bytes;
        while ((bytes = read(failure[0], error, sizeof *error)) < 0 && errno == EINTR)
            ;
        if (bytes == (ssize_t)sizeof *error) {
            waitpid(pid, NULL, 0);
            pid = -1;
        }
    }
    close(failure[0]);
    return pid;
}

/*
 * A signal that a terminal made (SI_KERNEL) went to the whole group, one from the program itself
 * would only come back to it.
 */
static void signal_pass_on(const struct signalfd_siginfo *signal, pid_t pid)
{
    switch (signal->ssi_signo) {
    case SIGCHLD:
    case SIGPIPE:
    case SIGTTIN:
    case SIGTTOU:
        return;
    }
    if (signal->ssi_code != SI_KERNEL && (pid_t)signal->ssi_pid != pid)
        kill(pid, (int)signal->ssi_signo);
}

/*
 * The program has stopped: so does the command, for the shell that waits for it, and whoever wakes
 * the command wakes the program.
 */
static void stop_together(pid_t pid)
{
    kill(getpid(), SIGSTOP);
    kill(pid, SIGCONT);
}

/* True, and the status, once the program has ended. */
static bool program_ended(pid_t pid, int *status)
{
    pid_t changed;
    while ((changed = waitpid(pid, status, WNOHANG | WUNTRACED)) == pid && WIFSTOPPED(*status))
        stop_together(pid);
    return changed == pid;
}

static int program_wait(pid_t pid, int signal_fd, struct reports *reports)
{
    int status = 0;
    while (!program_ended(pid, &status)) {
        struct pollfd sources[] = {
            {.fd = signal_fd, .events = POLLIN},
            {.fd = reports->read_fd, .events = POLLIN},
        };
        if (poll(sources, 2, -1) < 0 && errno != EINTR)
            break;
        struct signalfd_siginfo signal;
        while (read(signal_fd, &signal, sizeof signal) == (ssize_t)sizeof signal)
            signal_pass_on(&signal, pid);
        reports_drain(reports);
    }
    return status;
}

static void tell_failure(const char *program, int error, int *exit_status)
{
    *exit_status = error == ENOENT ? STATUS_NOT_FOUND : STATUS_NOT_EXECUTABLE;
    if (error != ENOENT || strchr(program, '/') != NULL) {
        tell("%s: %s", program, strerror(error));
        return;
    }
    const char *nearest = sub_command_nearest(program);
    tell("%s: no such program in PATH%s%s%s", program, nearest ? "; or is the sub-command `" : "",
         nearest ? nearest : "", nearest ? "` meant?" : "");
}

int program_run(char **argv, struct reports *reports, int *exit_status)
{
    struct inherited inherited;
    sigset_t all;
    int error = 0;

    sigfillset(&all);
    int signal_fd = signalfd(-1, &all, SFD_CLOEXEC | SFD_NONBLOCK);
    if (signal_fd < 0) {
        tell("signalfd: %s", strerror(errno));
        return -1;
    }
    sigprocmask(SIG_SETMASK, &all, &inherited.mask);
    /* Where SIGCHLD is inherited as ignored, waitpid would find no child. */
    sigaction(SIGCHLD, &(struct sigaction){.sa_handler = SIG_DFL}, &inherited.child_action);

    pid_t pid = program_start(argv, &inherited, &error);
    if (pid < 0) {
        tell_failure(argv[0], error, exit_status);
        return -1;
    }
    int status = program_wait(pid, signal_fd, reports);
    close(signal_fd);
    return status;
}

void program_end_like(int status)
{
    if (!WIFSIGNALED(status))
        exit(WEXITSTATUS(status));

    int number = WTERMSIG(status);
    sigset_t only;
    fflush(NULL);
    /* The core file, if any, is the program's. */
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    signal(number, SIG_DFL);
    sigemptyset(&only);
    sigaddset(&only, number);
    kill(getpid(), number);
    sigprocmask(SIG_UNBLOCK, &only, NULL);
    _exit(128 + number);
}
