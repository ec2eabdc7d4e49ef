/* mapping: one table for all who ask, however many come at once; none where memory is refused. */
#include "mapping.h"

#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sys.h"

#define TABLE_BYTES (1u << 20)
#define THREADS     4u
#define ROUNDS      200u

TEST(zeros_once_and_the_same_after)
{
    void *place = NULL;
    errno = 4711;
    uint8_t *table = mapping_late_table(&place, TABLE_BYTES);
    REQUIRE(table != NULL);
    CHECK(place == table && errno == 4711);
    CHECK(table[0] == 0 && table[TABLE_BYTES - 1] == 0);
    table[7] = 1;
    CHECK(mapping_late_table(&place, TABLE_BYTES) == table && table[7] == 1);
}

static pthread_barrier_t barrier;
static void *places[ROUNDS];

static void *ask(void *found)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        ((void **)found)[i] = mapping_late_table(&places[i], 4096);
    }
    return NULL;
}

TEST(all_who_come_at_once_get_the_same)
{
    static void *found[THREADS][ROUNDS];
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (unsigned t = 0; t < THREADS; t++)
        REQUIRE(pthread_create(&threads[t], NULL, ask, found[t]) == 0);
    for (unsigned t = 0; t < THREADS; t++)
        pthread_join(threads[t], NULL);
    for (unsigned i = 0; i < ROUNDS; i++)
        for (unsigned t = 0; t < THREADS; t++)
            CHECK(found[t][i] != NULL && found[t][i] == places[i]);
}

#define LIMIT_IS_IGNORED 2

/* An emulator of programs may take limits of memory and keep none. */
static bool limit_is_kept(void)
{
    return mmap(NULL, TABLE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) ==
           MAP_FAILED;
}

static void check_limited_child(pid_t pid)
{
    int status = -1;
    REQUIRE(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
    if (WEXITSTATUS(status) == LIMIT_IS_IGNORED)
        SKIP("limits of memory have no effect here");
    CHECK_I64(WEXITSTATUS(status), 0);
}

TEST(without_memory_there_is_none_and_later_there_may_be)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit before, least;
        getrlimit(RLIMIT_AS, &before);
        least = before;
        least.rlim_cur = 4096;
        void *place = NULL;
        setrlimit(RLIMIT_AS, &least);
        if (!limit_is_kept())
            _exit(LIMIT_IS_IGNORED);
        bool refused = mapping_late_table(&place, TABLE_BYTES) == NULL && place == NULL;
        setrlimit(RLIMIT_AS, &before);
        _exit(refused && mapping_late_table(&place, TABLE_BYTES) != NULL ? 0 : 1);
    }
    check_limited_child(pid);
}

/* kB of private memory that can be written, as RLIMIT_DATA counts it (proc(5), VmData). */
static long data_kb(void)
{
    char line[128];
    long kb = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "VmData: %ld kB", &kb) == 1)
            break;
    if (file != NULL)
        fclose(file);
    return kb;
}

TEST(what_no_fork_copies_is_not_the_programs_data_where_that_is_limited)
{
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit limit = {RLIM_INFINITY, RLIM_INFINITY};
        long before_kb = data_kb();
        uint8_t *free_of_limits = mapping_not_for_forks(TABLE_BYTES);
        long between_kb = data_kb();
        bool fine = !sys_is_error(free_of_limits) && between_kb >= before_kb + 1024;
        limit.rlim_cur = (rlim_t)between_kb * 1024;
        fine &= setrlimit(RLIMIT_DATA, &limit) == 0;
        if (!limit_is_kept())
            _exit(LIMIT_IS_IGNORED);
        uint8_t *limited = mapping_not_for_forks(TABLE_BYTES);
        fine &= !sys_is_error(limited) && data_kb() == between_kb;
        fine &= limited[0] == 0 && (limited[TABLE_BYTES - 1] = 1) == 1;
        _exit(fine ? 0 : 1);
    }
    check_limited_child(pid);
}
