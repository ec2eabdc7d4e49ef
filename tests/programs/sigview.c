/*
 * Prints all that a program can see of its signals, so that two runs can be compared: what each of
 * them does, masks before and after each change, those that new threads, forked children and
 * executed programs get; and sends itself every real-time signal, to be waited for, read from a
 * descriptor, handled, and died of. Computes in between, argv[1] us each time. With argv[2] it
 * ignores every real-time signal instead, and then computes.
 * Build: -pthread
 */
#include "burn.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <sys/signalfd.h>
#include <sys/wait.h>

BURNER(between)
BURNER(ignoring)

extern char **environ;

static long burn_for_us;
static volatile int handled[65];

static void pause_a_bit(void)
{
    between(burn_for_us);
}

static void print_set(const char *what, const sigset_t *set)
{
    printf("%s:", what);
    for (int i = 1; i <= 64; i++)
        if (sigismember(set, i) == 1)
            printf(" %d", i);
    printf("\n");
}

static void print_mask(const char *what)
{
    sigset_t set;

    sigprocmask(SIG_BLOCK, NULL, &set);
    print_set(what, &set);
}

static void print_actions(void)
{
    struct sigaction action;

    for (int i = 1; i <= 64; i++) {
        if (sigaction(i, NULL, &action) != 0)
            printf("%d none\n", i);
        else if (action.sa_handler != SIG_DFL || action.sa_flags != 0)
            printf("%d %s %x\n", i, action.sa_handler == SIG_IGN ? "ignored" : "handled",
                   (unsigned)action.sa_flags);
    }
}

static void change_masks(void)
{
    sigset_t set, old;

    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
        sigemptyset(&set);
        sigaddset(&set, i);
        sigaddset(&set, SIGUSR1);
        sigprocmask(SIG_BLOCK, &set, &old);
        print_set("blocked before", &old);
        print_mask("then");
    }
    pause_a_bit();
    for (int i = SIGRTMAX; i >= SIGRTMIN; i -= 2) {
        sigemptyset(&set);
        sigaddset(&set, i);
        pthread_sigmask(SIG_UNBLOCK, &set, &old);
        print_set("unblocked before", &old);
    }
    sigfillset(&set);
    sigprocmask(SIG_SETMASK, &set, &old);
    print_set("set before", &old);
    print_mask("full");
    pause_a_bit();
}

static void *thread_body(void *what)
{
    sigset_t set;

    print_mask(what);
    pause_a_bit();
    sigemptyset(&set);
    pthread_sigmask(SIG_SETMASK, &set, NULL);
    print_mask("changed");
    return NULL;
}

static void make_thread(const char *what)
{
    pthread_t thread;

    pthread_create(&thread, NULL, thread_body, (void *)what);
    pthread_join(thread, NULL);
    print_mask("after a thread");
}

/* Every way to execute a program with what we have blocked. */
static void execute(void)
{
    char *list[] = {"grep", "-E", "Sig(Blk|Ign)", "/proc/self/status", NULL};
    char line[200];
    FILE *pipe;
    pid_t pid;

    fflush(stdout);
    if (posix_spawnp(&pid, "grep", NULL, NULL, list, environ) == 0)
        waitpid(pid, NULL, 0);
    for (int way = 0; way < 4; way++) {
        pid = fork();
        if (pid == 0) {
            execv("/nonexistent", list);
            if (way == 0)
                execvp("grep", list);
            else if (way == 1)
                execlp("grep", list[0], list[1], list[2], list[3], NULL);
            else if (way == 2)
                execle("/bin/grep", list[0], list[1], list[2], list[3], NULL, environ);
            else
                execve("/bin/grep", list, environ);
            _exit(1);
        }
        waitpid(pid, NULL, 0);
    }
    if (system("grep SigBlk /proc/self/status") != 0)
        printf("system failed\n");
    pipe = popen("grep SigBlk /proc/self/status", "r");
    while (fgets(line, sizeof line, pipe) != NULL)
        printf("%s", line);
    pclose(pipe);
    print_mask("after executing");
}

/* All are blocked. */
static void wait_for_each(void)
{
    const struct timespec soon = {0, 20000000};
    sigset_t set, pending;
    siginfo_t info;
    int got;

    sigfillset(&set);
    got = sigtimedwait(&set, &info, &soon);
    printf("nothing: %d\n", got);
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++) {
        kill(getpid(), i);
        pause_a_bit();
        sigpending(&pending);
        print_set("pending", &pending);
        got = 0;
        sigwait(&set, &got);
        sigqueue(getpid(), i, (union sigval){.sival_int = i * 3});
        int again = sigwaitinfo(&set, &info);
        printf("sent %d: waited for %d, %d with %d\n", i, got, again, info.si_value.sival_int);
        pthread_kill(pthread_self(), i);
        again = sigtimedwait(&set, &info, &soon);
        printf("to the thread: %d\n", again);
    }
}

static void read_each(void)
{
    struct signalfd_siginfo info;
    sigset_t set;
    int fd;

    sigfillset(&set);
    fd = signalfd(-1, &set, SFD_NONBLOCK);
    printf("fd %d, empty: %d\n", fd, (int)read(fd, &info, sizeof info));
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--) {
        kill(getpid(), i);
        pause_a_bit();
        printf("read %d", (int)read(fd, &info, sizeof info));
        printf(" %d\n", (int)info.ssi_signo);
    }
    close(fd);
}

static void on_signal(int number)
{
    handled[number]++;
}

static void handle_each(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigset_t set;

    sigemptyset(&set);
    sigprocmask(SIG_SETMASK, &set, NULL);
    for (int i = SIGRTMAX; i >= SIGRTMIN + 4; i--) {
        sigaction(i, &action, NULL);
        pause_a_bit();
        kill(getpid(), i);
        printf("%d handled %d\n", i, handled[i]);
    }
    print_actions();
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        signal(i, i % 2 ? SIG_IGN : SIG_DFL);
    pause_a_bit();
    print_actions();
    for (int i = SIGRTMIN; i <= SIGRTMAX; i++)
        signal(i, SIG_DFL);
}

#pragma GCC diagnostic ignored "-Wdeprecated-declarations" /* siginterrupt */

static void ignore_each(void)
{
    for (int i = SIGRTMAX; i >= SIGRTMIN; i--) {
        if (siginterrupt(i, 1) != 0 || sigignore(i) != 0)
            printf("%d is not to be ignored\n", i);
        kill(getpid(), i);
    }
    print_actions();
    ignoring(200000);
}

static void die_of_each(void)
{
    int status;

    for (int i = SIGRTMAX; i >= SIGRTMIN; i -= 3) {
        fflush(stdout);
        if (fork() == 0) {
            pause_a_bit();
            kill(getpid(), i);
            _exit(0);
        }
        wait(&status);
        printf("%d: died of %d\n", i, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    }
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    burn_for_us = argument(argc, argv, 1, 6000);
    pause_a_bit();
    if (argc > 2) {
        ignore_each();
        return 0;
    }
    print_actions();
    print_mask("at the start");
    die_of_each();
    make_thread("a new thread's");
    change_masks();
    make_thread("one of a thread that blocks all");
    execute();
    wait_for_each();
    read_each();
    handle_each();
    print_mask("at the end");
    return 0;
}
