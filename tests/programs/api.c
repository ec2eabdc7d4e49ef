/*
 * Uses the calls of selfsample.h in the way that argv[1] names. What it prints does not depend on
 * whether the library is there, but for `fast`, `price`, `errors`, `cycles` and `churn`.
 * Build: -pthread
 */
#include "burn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "selfsample.h"

BURNER(work)
BURNER(counted)
BURNER(left_out)

static void check(int result, const char *what)
{
    if (result != 0 && result != -ENOSYS)
        printf("%s: %d\n", what, result);
}

/* 60/30/10 by labels alone: the function is one and the same. */
static void *labelled(void *name)
{
    long end_ns = thread_cpu_ns() + 1200000000L;
    char label[32];
    while (thread_cpu_ns() < end_ns) {
        snprintf(label, sizeof label, "%s-sixty", (const char *)name);
        check(selfsample_label(label), "label");
        work(6 * 1370);
        snprintf(label, sizeof label, "%s-thirty", (const char *)name);
        check(selfsample_label(label), "label");
        work(3 * 1370);
        check(selfsample_label(""), "label");
        work(1370);
    }
    return NULL;
}

static int labels(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, labelled, "b");
    labelled("a");
    pthread_join(thread, NULL);
    return 0;
}

/* Labels change far more often than anything is sampled. Prints the share of the long one. */
static int fast(void)
{
    long start_ns = thread_cpu_ns(), now_ns = start_ns, long_ns = 0;
    while (now_ns < start_ns + 1500000000L) {
        selfsample_label("long");
        work(120);
        long switch_ns = thread_cpu_ns();
        long_ns += switch_ns - now_ns;
        selfsample_label("short");
        work(40);
        now_ns = thread_cpu_ns();
    }
    printf("%.4f\n", (double)long_ns / (double)(now_ns - start_ns));
    return 0;
}

/* What a call takes, ns, on stdout. */
static int price(void)
{
    enum { CALLS = 200000 };
    long start_ns = thread_cpu_ns();
    for (int i = 0; i < CALLS / 2; i++) {
        selfsample_label("one thing");
        selfsample_label("another thing");
    }
    printf("%ld\n", (thread_cpu_ns() - start_ns) / CALLS);
    return 0;
}

/* Ten milliseconds counted and ten left out, in turns. */
static int pauses(void)
{
    for (int i = 0; i < 60; i++) {
        counted(10000);
        check(selfsample_pause(), "pause");
        left_out(10000);
        check(selfsample_resume(), "resume");
    }
    return 0;
}

static int snapshot(void)
{
    counted(300000);
    check(selfsample_snapshot("mid.folded"), "snapshot");
    if (chdir("..") != 0)
        return 1;
    check(selfsample_snapshot(NULL), "snapshot");
    left_out(300000);
    return 0;
}

static void *burn_for_ever(void *unused)
{
    (void)unused;
    for (;;)
        work(10000);
    return NULL;
}

static int lines_of(const char *path)
{
    int fd = open(path, O_RDONLY), lines = 0;
    static char buffer[65536];
    for (ssize_t got; (got = read(fd, buffer, sizeof buffer)) > 0;)
        for (ssize_t i = 0; i < got; i++)
            lines += buffer[i] == '\n';
    close(fd);
    return lines;
}

static long virtual_kb(void)
{
    char text[4096] = "";
    int fd = open("/proc/self/status", O_RDONLY);
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    char *line = got > 0 ? strstr(text, "VmSize:") : NULL;
    return line != NULL ? strtol(line + 7, NULL, 10) : 0;
}

/* Starts and stops argv[2] times, with a second thread at work; prints what that has left. */
static int cycles(int times)
{
    pthread_t thread;
    int lines = 0, fds = 0;
    long kb = 0;
    pthread_create(&thread, NULL, burn_for_ever, NULL);
    for (int i = 0; i < times; i++) {
        if (i == 5) { /* what is loaded and kept from the first on */
            lines = lines_of("/proc/self/maps");
            kb = virtual_kb();
            fds = dup(0);
        }
        check(selfsample_start(), "start");
        counted(5000);
        check(selfsample_stop(), "stop");
        left_out(1000);
    }
    printf("mappings %d, kB %ld, descriptors %d, children %d\n",
           lines_of("/proc/self/maps") - lines, virtual_kb() - kb, dup(0) - fds - 1,
           (int)waitpid(-1, NULL, WNOHANG | __WALL));
    fflush(stdout);
    _exit(0);
}

static uint32_t churn_is_over;

static void *nothing(void *unused)
{
    return unused;
}

static void *make_threads(void *unused)
{
    while (__atomic_load_n(&churn_is_over, __ATOMIC_RELAXED) == 0) {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            pthread_create(&threads[i], NULL, nothing, NULL);
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
    }
    return unused;
}

/* Starts and stops argv[2] times, while threads come and go; prints how many mappings that left. */
static int churn(int times)
{
    pthread_t makers[3];
    int lines = lines_of("/proc/self/maps");
    for (int i = 0; i < 3; i++)
        pthread_create(&makers[i], NULL, make_threads, NULL);
    for (int i = 0; i < times; i++) {
        check(selfsample_start(), "start");
        usleep(2000);
        int stopped = selfsample_stop();
        check(stopped == -ENODATA ? 0 : stopped, "stop");
    }
    __atomic_store_n(&churn_is_over, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(makers[i], NULL);
    printf("mappings %d\n", lines_of("/proc/self/maps") - lines);
    return 0;
}

static void *call_all(void *number)
{
    long end_ns = thread_cpu_ns() + 100000000L;
    unsigned random = (unsigned)(uintptr_t)number * 7919u + 1;
    while (thread_cpu_ns() < end_ns) {
        char label[16];
        random = random * 1103515245u + 12345u;
        snprintf(label, sizeof label, "label %u", random >> 20 & 15u);
        selfsample_label(label);
        work(500);
        switch (random >> 16 & 7) {
        case 0:
            selfsample_start();
            break;
        case 1:
            selfsample_stop();
            break;
        case 2:
            selfsample_pause();
            break;
        case 3:
            selfsample_resume();
            break;
        case 4:
            selfsample_snapshot("some.folded");
            break;
        case 5:
            if (fork() == 0) {
                selfsample_label("child");
                _exit(0);
            }
            break;
        }
    }
    return NULL;
}

static int together(void)
{
    pthread_t threads[8];
    for (uintptr_t i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, call_all, (void *)i);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    while (wait(NULL) > 0)
        ;
    return 0;
}

/* A child has its parent's label, and is paused if its parent is. */
static int forks(void)
{
    check(selfsample_label("family"), "label");
    counted(100000);
    if (fork() == 0) {
        counted(200000);
        _exit(0);
    }
    wait(NULL);
    check(selfsample_pause(), "pause");
    if (fork() == 0) {
        left_out(200000);
        check(selfsample_resume(), "resume");
        counted(200000);
        _exit(0);
    }
    wait(NULL);
    return 0;
}

static void show(const char *what, int result)
{
    printf("%s %d\n", what, result);
}

static int errors(void)
{
    char name[5000];
    show("stop", selfsample_stop());
    show("stop", selfsample_stop());
    show("pause", selfsample_pause());
    show("snapshot", selfsample_snapshot(NULL));
    show("start", selfsample_start());
    show("start", selfsample_start());
    show("early", selfsample_snapshot("early.folded"));
    counted(20000);
    show("nowhere", selfsample_snapshot("no/such/directory"));
    show("empty", selfsample_snapshot(""));
    show("directory", selfsample_snapshot("x/"));
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = 0;
    show("long", selfsample_snapshot(name));
    show("pause", selfsample_pause());
    show("pause", selfsample_pause());
    show("resume", selfsample_resume());
    show("resume", selfsample_resume());
    errno = 77;
    selfsample_stop();
    selfsample_start();
    show("errno", errno);
    for (int i = 0; i < 1100; i++) {
        snprintf(name, sizeof name, "number %d", i);
        int result = selfsample_label(name);
        if (result != 0 && (i == 1023 || i == 1024 || i == 1099))
            show(name, result);
    }
    counted(20000);
    return 0;
}

/* Many threads, each with a label, one after the other: their places come free again. */
static void *set_one(void *label)
{
    check(selfsample_label(label), "label");
    return NULL;
}

static int many(void)
{
    for (int i = 0; i < 3000; i++) {
        pthread_t thread;
        pthread_create(&thread, NULL, set_one, (void *)"one of many");
        pthread_join(thread, NULL);
        if (i % 500 == 0)
            work(100000);
        if (i % 100 == 0)
            usleep(100000);
    }
    return 0;
}

static void on_alarm(int number)
{
    (void)number;
    check(selfsample_label("in a handler"), "label");
    work(200);
    check(selfsample_label("after a handler"), "label");
}

/* Labels set in a handler that interrupts the setting of labels. */
static int handler(void)
{
    const struct itimerval often = {{0, 1000}, {0, 1000}}, never = {{0, 0}, {0, 0}};
    check(selfsample_label("start"), "label");
    signal(SIGALRM, on_alarm);
    setitimer(ITIMER_REAL, &often, NULL);
    for (long end_ns = thread_cpu_ns() + 800000000L; thread_cpu_ns() < end_ns;) {
        selfsample_label("one");
        selfsample_label("another");
    }
    setitimer(ITIMER_REAL, &never, NULL);
    check(selfsample_label("quiet"), "label");
    work(200000);
    return 0;
}

/* Leaves a file `ready`, waits for one named `go`, and removes both. */
static void meet(void)
{
    close(open("ready", O_WRONLY | O_CREAT, 0600));
    for (int i = 0; i < 4000 && access("go", F_OK) != 0; i++)
        usleep(5000);
    unlink("ready");
    unlink("go");
}

/* Something is done to the helper between the first call and the rest. */
static int attacked(void)
{
    counted(200000);
    show("snapshot", selfsample_snapshot(NULL));
    meet();
    show("pause", selfsample_pause());
    show("snapshot", selfsample_snapshot(NULL));
    show("stop", selfsample_stop());
    show("start", selfsample_start());
    counted(200000);
    show("stop", selfsample_stop());
    return 0;
}

static void *pausing(void *unused)
{
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    for (;;) {
        selfsample_pause();
        selfsample_resume();
    }
    return unused;
}

/* Threads are cancelled in the midst of calls; others then make theirs. */
static int cancelled(void)
{
    int count = 0;
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, pausing, NULL);
        usleep(3000);
        pthread_cancel(thread);
        pthread_join(thread, &result);
        count += result == PTHREAD_CANCELED;
    }
    check(selfsample_resume(), "resume");
    counted(200000);
    printf("cancelled: %d\n", count);
    return 0;
}

static void *start_and_stop(void *unused)
{
    check(selfsample_start(), "start");
    counted(200000);
    check(selfsample_stop(), "stop");
    return unused;
}

/* A session of a thread with the smallest stack that there may be. */
static int small(void)
{
    pthread_t thread;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN);
    pthread_create(&thread, &attributes, start_and_stop, NULL);
    pthread_join(thread, NULL);
    return 0;
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    static const struct {
        const char *name;
        int (*run)(void);
    } ways[] = {{"labels", labels},     {"fast", fast},         {"price", price},
                {"pauses", pauses},     {"snapshot", snapshot}, {"together", together},
                {"forks", forks},       {"errors", errors},     {"many", many},
                {"attacked", attacked}, {"handler", handler},   {"cancelled", cancelled},
                {"small", small}};
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++)
        if (strcmp(how, ways[i].name) == 0)
            return ways[i].run();
    if (strcmp(how, "cycles") == 0)
        return cycles((int)argument(argc, argv, 2, 100));
    if (strcmp(how, "churn") == 0)
        return churn((int)argument(argc, argv, 2, 300));
    printf("version %s\n", selfsample_version() != NULL ? selfsample_version() : "none");
    return 0;
}
