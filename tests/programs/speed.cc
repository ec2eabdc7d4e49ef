/*
 * Loops that libc and libstdc++ run faster while there is one thread: putc, malloc and shared_ptr.
 * Prints nothing; writes the CPU time of each in us into the file argv[1], the best of five.
 */
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>

static long cpu_us()
{
    timespec now;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000L + now.tv_nsec / 1000;
}

static void put_characters()
{
    FILE *file = fopen("/dev/null", "w");

    for (int i = 0; i < 5000000; i++)
        putc('x', file);
    fclose(file);
}

static void allocate()
{
    for (int i = 0; i < 3000000; i++) {
        void *volatile block = malloc(64);

        free(block);
    }
}

static void share_pointers()
{
    auto pointer = std::make_shared<int>(1);

    for (int i = 0; i < 10000000; i++) {
        std::shared_ptr<int> copy = pointer;

        __asm__ volatile("" ::"g"(copy.get()) : "memory");
    }
}

static long best_of_five(void (*loop)())
{
    long best = 0;

    for (int i = 0; i < 5; i++) {
        long start_us = cpu_us();

        loop();
        long took_us = cpu_us() - start_us;
        best = i == 0 || took_us < best ? took_us : best;
    }
    return best;
}

int main(int, char **argv)
{
    FILE *file = argv[1] ? fopen(argv[1], "w") : nullptr;

    if (!file)
        return 2;
    fprintf(file, "putc %ld\n", best_of_five(put_characters));
    fprintf(file, "malloc %ld\n", best_of_five(allocate));
    fprintf(file, "shared_ptr %ld\n", best_of_five(share_pointers));
    fclose(file);
    return 0;
}
