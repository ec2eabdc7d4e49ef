/*
 * What single calls take: prints the median of N times, and what the fastest tenth of them is
 * below, in us.
 *
 *     calls start N    start and exit of /bin/true
 *     calls chain N    an image of this program that executes the next one
 *     calls thread N   pthread_create and pthread_join of a thread that does nothing
 *     calls fork N     fork, _exit of the child, waitpid
 *
 * start and chain run their programs in this program's environment but for LD_PRELOAD, which they
 * get from $CHILD_PRELOAD: this program itself is to run bare. thread and fork measure the process
 * that they run in.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMES_MAX    10000
#define CHAIN_IMAGES 20

extern char **environ;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static void spawn_and_wait(const char *program, char *const *arguments)
{
    pid_t pid;
    if (posix_spawn(&pid, program, NULL, NULL, arguments, environ) != 0 ||
        waitpid(pid, NULL, 0) != pid)
        exit(1);
}

static void start_once(void)
{
    char *const arguments[] = {"true", NULL};
    spawn_and_wait("/bin/true", arguments);
}

/* One image of the chain; the last one just ends. */
static int chain_link(const char *left)
{
    char text[16];
    int images = atoi(left);
    if (images <= 1)
        return 0;
    snprintf(text, sizeof text, "%d", images - 1);
    execl("/proc/self/exe", "calls", "link", text, (char *)NULL);
    return 1;
}

static void chain_once(void)
{
    char images[16];
    snprintf(images, sizeof images, "%d", CHAIN_IMAGES);
    char *const arguments[] = {"calls", "link", images, NULL};
    spawn_and_wait("/proc/self/exe", arguments);
}

static void *nothing(void *unused)
{
    return unused;
}

static void thread_once(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, nothing, NULL) != 0)
        exit(1);
    pthread_join(thread, NULL);
}

static void fork_once(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    if (pid < 0 || waitpid(pid, NULL, 0) != pid)
        exit(1);
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double took_us[TIMES_MAX];

/* Fills took_us, in order. */
static void calls_time(void (*once)(void), int times)
{
    for (int i = 0; i < times; i++) {
        double start_us = now_us();
        once();
        took_us[i] = now_us() - start_us;
    }
    qsort(took_us, (size_t)times, sizeof *took_us, by_size);
}

static void preload_set(void)
{
    const char *library = getenv("CHILD_PRELOAD");
    if (library != NULL && library[0] != '\0')
        setenv("LD_PRELOAD", library, 1);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*once)(void);
        int parts;
    } calls[] = {{"start", start_once, 1},
                 {"chain", chain_once, CHAIN_IMAGES},
                 {"thread", thread_once, 1},
                 {"fork", fork_once, 1}};
    int times = argc > 2 ? atoi(argv[2]) : 0;
    if (argc > 2 && strcmp(argv[1], "link") == 0)
        return chain_link(argv[2]);
    if (times < 1 || times > TIMES_MAX)
        return 2;
    for (unsigned i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(argv[1], calls[i].name) != 0)
            continue;
        if (calls[i].once == start_once || calls[i].once == chain_once)
            preload_set();
        calls_time(calls[i].once, times);
        printf("%.1f %.1f\n", took_us[times / 2] / calls[i].parts,
               took_us[times / 10] / calls[i].parts);
        return 0;
    }
    return 2;
}
