/*
 * Work that is argv[4] percent the kernel's, in in_kernel(), and for the rest in_user()'s, which
 * makes no calls: in turns of 100 us of CPU time. Lives of argv[3] us each, argv[2] of them one
 * after the other: argv[1] is "forks" (children that leave by _exit), "execs" (children that then
 * execute `true`), "threads" or "calls" (of the first thread). Writes into the file argv[5] how
 * many us of CPU time the lives have had in all, how many of these in in_user(), and how many in
 * all from the forks on. Build: -pthread
 */
#include "burn.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { TURN_US = 100 };

static long life_us, kernel_percent, turns_a_us;
static int zeros;
static struct {
    long all_ns, user_ns, forked_ns;
} * used;

OWN_FRAME void in_user(long us)
{
    spin(us * turns_a_us);
    NOT_LAST();
}

/* Calls that take some us each, and next to nothing of that outside of the kernel. */
OWN_FRAME void in_kernel(long us)
{
    static char buffer[16384];
    long end_ns = thread_cpu_ns() + us * 1000;

    while (thread_cpu_ns() < end_ns)
        if (read(zeros, buffer, sizeof(buffer)) < 0)
            abort();
}

static void calibrate(void)
{
    for (int i = 0; i < 20; i++) {
        long start_ns = thread_cpu_ns(), turns;

        spin(100000);
        turns = 100000 * 1000L / (thread_cpu_ns() - start_ns);
        if (turns > turns_a_us)
            turns_a_us = turns;
    }
}

static void live(void)
{
    long start_ns = thread_cpu_ns(), now_ns = start_ns;

    while (now_ns - start_ns < life_us * 1000) {
        long user_start_ns;

        if (kernel_percent > 0)
            in_kernel(TURN_US * kernel_percent / 100);
        user_start_ns = thread_cpu_ns();
        in_user(TURN_US * (100 - kernel_percent) / 100);
        now_ns = thread_cpu_ns();
        __atomic_add_fetch(&used->user_ns, now_ns - user_start_ns, __ATOMIC_SEQ_CST);
    }
    __atomic_add_fetch(&used->all_ns, now_ns - start_ns, __ATOMIC_SEQ_CST);
    __atomic_add_fetch(&used->forked_ns, now_ns, __ATOMIC_SEQ_CST);
}

static void *body(void *unused)
{
    live();
    return unused;
}

static int live_forked(bool execs)
{
    int status;
    pid_t pid = fork();

    if (pid == 0) {
        live();
        if (execs)
            execl("/bin/true", "true", (char *)NULL);
        _exit(execs);
    }
    return waitpid(pid, &status, 0) != pid || status != 0;
}

static int live_threaded(void)
{
    pthread_t thread;

    return pthread_create(&thread, NULL, body, NULL) != 0 || pthread_join(thread, NULL) != 0;
}

static int live_once(const char *how)
{
    if (strcmp(how, "forks") == 0 || strcmp(how, "execs") == 0)
        return live_forked(how[0] == 'e');
    if (strcmp(how, "threads") == 0)
        return live_threaded();
    live();
    return 0;
}

int main(int argc, char **argv)
{
    long lives = argument(argc, argv, 2, 100);
    int failures = 0;
    FILE *file;

    life_us = argument(argc, argv, 3, 4000);
    kernel_percent = argument(argc, argv, 4, 75);
    zeros = open("/dev/zero", O_RDONLY);
    used = mmap(NULL, sizeof(*used), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (argc < 6 || zeros < 0 || used == MAP_FAILED)
        return 1;
    calibrate();
    for (long i = 0; i < lives; i++)
        failures += live_once(argv[1]);
    file = fopen(argv[5], "w");
    if (!file)
        return 1;
    fprintf(file, "%ld %ld %ld", used->all_ns / 1000, used->user_ns / 1000, used->forked_ns / 1000);
    fclose(file);
    printf("%d failures\n", failures);
    return failures != 0;
}
