/*
 * A fork server with much memory: touches argv[1] MB in small pages, forks argv[2] children that
 * leave at once, computing in between, and writes the median duration of a fork in us into argv[3].
 */
#include "burn.h"

#include <sys/mman.h>
#include <sys/wait.h>

#define FORKS_MAX 100

BURNER(in_parent)

static long now_us(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static int by_size(const void *a, const void *b)
{
    long x = *(const long *)a, y = *(const long *)b;

    return (x > y) - (x < y);
}

static long fork_once(void)
{
    long start_us = now_us(), took_us;
    int status;
    pid_t pid = fork();

    if (pid == 0)
        _exit(3);
    took_us = now_us() - start_us;
    if (pid < 0 || waitpid(pid, &status, 0) != pid || WEXITSTATUS(status) != 3)
        exit(1);
    return took_us;
}

int main(int argc, char **argv)
{
    size_t bytes = (size_t)argument(argc, argv, 1, 64) << 20;
    long forks = argument(argc, argv, 2, 10), took_us[FORKS_MAX];
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *file = argc > 3 ? fopen(argv[3], "w") : NULL;

    if (memory == MAP_FAILED || !file || forks > FORKS_MAX)
        return 2;
    madvise(memory, bytes, MADV_NOHUGEPAGE);
    for (size_t i = 0; i < bytes; i += 4096)
        memory[i] = 1;
    for (long i = 0; i < forks; i++) {
        took_us[i] = fork_once();
        in_parent(20000);
    }
    qsort(took_us, (size_t)forks, sizeof(*took_us), by_size);
    fprintf(file, "%ld\n", took_us[forks / 2]);
    fclose(file);
    puts("forked");
    return 0;
}
