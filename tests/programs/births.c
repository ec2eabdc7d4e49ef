/*
 * argv[1] threads one after the other, each living for argv[2] us of CPU time: the first three
 * quarters in early(), the last one in late(). Says whether mappings or descriptors piled up, and
 * writes how many us the two have had in all into the file argv[3] ("-": none). With argv[4] the
 * process is that user's from the start.
 * Build: -pthread
 */
#include "burn.h"
#include "inventory.h"

#include <pthread.h>
#include <unistd.h>

BURNER(early)
BURNER(late)

static long life_us, burnt_ns;

static void *body(void *unused)
{
    long start_ns = thread_cpu_ns();

    early(life_us * 3 / 4);
    late(life_us / 4);
    burnt_ns += thread_cpu_ns() - start_ns;
    return unused;
}

static void write_burnt(const char *path)
{
    FILE *file = fopen(path, "w");

    if (file) {
        fprintf(file, "%ld", burnt_ns / 1000);
        fclose(file);
    }
}

int main(int argc, char **argv)
{
    long count = argument(argc, argv, 1, 1000), maps = 0, files = 0;
    pthread_t thread;

    life_us = argument(argc, argv, 2, 100);
    if (argc > 4 && setuid((uid_t)argument(argc, argv, 4, 0)) != 0)
        return 1;
    for (long i = 0; i < count; i++) {
        if (i == count / 10) {
            maps = mappings_with("");
            files = entries_of("/proc/self/fd");
        }
        if (pthread_create(&thread, NULL, body, NULL))
            return 1;
        pthread_join(thread, NULL);
    }
    /* What ends may be taken down a moment later, on a busy machine. */
    for (int i = 0; i < 100 && mappings_with("") - maps > 32; i++)
        usleep(20000);
    printf("mappings %s, files %s\n", mappings_with("") - maps > 32 ? "pile up" : "steady",
           entries_of("/proc/self/fd") != files ? "pile up" : "steady");
    if (argc > 3 && argv[3][0] != '-')
        write_burnt(argv[3]);
    return 0;
}
