/*
 * What a program can notice of a profiler, computing in between: interrupted system calls, the
 * lowest free descriptor, its descriptors and tasks, children, signal masks and handlers, whether
 * libc still takes it for single-threaded. Prints it all; must print the same bare.
 * Build: -pthread
 */
#include "burn.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/single_threaded.h>
#include <sys/wait.h>

BURNER(work)

static void list(const char *directory)
{
    DIR *stream = opendir(directory);
    struct dirent *entry;
    int entries = 0;

    while (stream && (entry = readdir(stream)))
        entries += entry->d_name[0] != '.';
    printf("%s: %d entries\n", directory, entries);
    closedir(stream);
}

static pid_t busy;

static void *keep_busy(void *unused)
{
    busy = gettid();
    work(600000);
    return unused;
}

/* What is joined is a task for a moment more. */
static void wait_until_gone(pid_t tid)
{
    char path[64];

    snprintf(path, sizeof(path), "/proc/self/task/%d", (int)tid);
    while (access(path, F_OK) == 0)
        usleep(1000);
}

static void count_interruptions(void)
{
    int pipe_fds[2], interrupted = 0;
    struct timespec short_time = {.tv_nsec = 5000000};
    sem_t semaphore;
    char byte;

    if (pipe(pipe_fds))
        abort();
    sem_init(&semaphore, 0, 0);
    for (int i = 0; i < 40; i++) {
        struct timespec until;
        struct pollfd poll_fd = {.fd = pipe_fds[0], .events = POLLIN};

        interrupted += poll(&poll_fd, 1, 5) < 0 && errno == EINTR;
        interrupted += nanosleep(&short_time, NULL) < 0 && errno == EINTR;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec = (until.tv_nsec + 5000000) % 1000000000;
        interrupted += sem_timedwait(&semaphore, &until) < 0 && errno == EINTR;
        interrupted += write(pipe_fds[1], "x", 1) != 1 || read(pipe_fds[0], &byte, 1) != 1;
        work(2000);
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    printf("interrupted: %d\n", interrupted);
}

static void show_signals(void)
{
    sigset_t mask, pending;
    struct sigaction action;
    int blocked = 0, waiting = 0, handled = 0;

    sigprocmask(SIG_SETMASK, NULL, &mask);
    sigpending(&pending);
    for (int i = 1; i < 65; i++) {
        blocked += sigismember(&mask, i) == 1;
        waiting += sigismember(&pending, i) == 1;
        handled += sigaction(i, NULL, &action) == 0 && action.sa_handler != SIG_DFL;
    }
    printf("signals: %d blocked, %d pending, %d handled\n", blocked, waiting, handled);
}

static void show_children(void)
{
    pid_t pid = wait(NULL);

    printf("wait: %d, %s\n", (int)pid, pid < 0 ? strerrorname_np(errno) : "child");
    pid = waitpid(-1, NULL, WNOHANG | __WALL);
    printf("fork: ");
    fflush(stdout);
    pid = fork();
    if (pid == 0)
        _exit(5);
    waitpid(pid, NULL, 0);
    printf("%s\n", wait(NULL) < 0 && errno == ECHILD ? "reaped" : "something else is there");
}

static void show_files(void)
{
    int fd = open("/dev/null", O_RDONLY);

    printf("lowest descriptor: %d\n", fd);
    close(fd);
    list("/proc/self/fd");
    list("/proc/self/task");
}

int main(void)
{
    pthread_t thread;

    printf("errno %d at the start\n", errno);
    errno = 0;
    work(100000);
    printf("errno %d, single-threaded %d\n", errno, __libc_single_threaded);
    show_files();
    show_signals();
    show_children();
    printf("single-threaded %d\n", __libc_single_threaded);
    if (pthread_create(&thread, NULL, keep_busy, NULL))
        return 1;
    list("/proc/self/task");
    count_interruptions();
    pthread_join(thread, NULL);
    wait_until_gone(busy);
    show_files();
    show_signals();
    return 0;
}
