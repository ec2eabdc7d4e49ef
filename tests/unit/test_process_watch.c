/* process_watch: this process's own libraries and memory, and those of a child that execs. */
#include "process_watch.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "check.h"

static struct arena arena;
static struct app_memory memory;
static struct process_watch watch;

static void begin(pid_t pid)
{
    arena_init(&arena, 16u << 20);
    app_memory_init(&memory, &arena);
    process_watch_init(&watch, &memory, (uintptr_t)&_r_debug, pid);
}

TEST(libraries_that_come_and_go_are_seen)
{
    begin(getpid());
    CHECK(process_watch_libraries(&watch));
    CHECK(!process_watch_libraries(&watch));
    void *library = dlopen("libm.so.6", RTLD_NOW);
    if (library == NULL || dlclose(library) != 0)
        SKIP("there is no libm to load");
    bool stays = dlopen("libm.so.6", RTLD_NOW | RTLD_NOLOAD) != NULL;
    if (stays)
        SKIP("libm is loaded already");
    CHECK(!process_watch_libraries(&watch));
    library = dlopen("libm.so.6", RTLD_NOW);
    CHECK(process_watch_libraries(&watch));
    dlclose(library);
    CHECK(process_watch_libraries(&watch));
    CHECK(!process_watch_libraries(&watch));
}

TEST(a_list_that_is_none_is_no_change)
{
    begin(getpid());
    watch.linker_list = 8;
    CHECK(process_watch_libraries(&watch));
    CHECK(!process_watch_libraries(&watch));
}

TEST(the_same_process_is_no_other_program)
{
    begin(getpid());
    CHECK(!process_watch_exec(&watch, true));
    CHECK(!process_watch_exec(&watch, true));
    begin(-1);
    CHECK(!process_watch_exec(&watch, true));
}

/* A child of vfork shares our memory until it execs. */
TEST(a_program_that_is_executed_is_another)
{
    int gate[2];
    REQUIRE(pipe2(gate, O_CLOEXEC) == 0);
    pid_t pid = vfork();
    if (pid == 0) {
        dup2(gate[0], 0);
        execlp("cat", "cat", NULL);
        _exit(127);
    }
    begin(pid);
    bool seen = false; /* while the new program is laid out, /proc does not tell */
    for (unsigned i = 0; i < 500 && !seen; i++) {
        usleep(10000);
        seen = process_watch_exec(&watch, true);
    }
    CHECK(seen);
    CHECK(!process_watch_exec(&watch, false)); /* it has just looked */
    close(gate[0]);
    close(gate[1]);
    waitpid(pid, NULL, 0);
    CHECK(!process_watch_exec(&watch, true)); /* gone */
}

#define BEFORE                                                                                     \
    "7 (a ) 1 2) S 1 1 1 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 1 0 99 1000 200 18446744073709551615 "
#define AFTER " 0 0 0 0 0 0 0 17 1 0 0 0 0 0 101 102 "

TEST(layouts)
{
    static const char one[] = BEFORE "11 12 13 14 15" AFTER "47 48 49 50 51 0\n";
    static const char heap[] = BEFORE "11 12 13 14 15" AFTER "46 48 49 50 51 0\n";
    static const char stack[] = BEFORE "11 12 12 14 15" AFTER "47 48 49 50 51 0\n";
    static const char here[] = BEFORE "11 12 13 99 98" AFTER "47 48 49 50 51 0\n";
    static const char hidden[] = BEFORE "1 1 0 0 0" AFTER "0 0 0 0 0 0\n";
    uint64_t layout = process_watch_layout(one, sizeof one - 1);
    CHECK(layout != 0);
    CHECK(process_watch_layout(heap, sizeof heap - 1) != layout);
    CHECK(process_watch_layout(stack, sizeof stack - 1) != layout);
    CHECK_U64(process_watch_layout(here, sizeof here - 1), layout);
    CHECK_U64(process_watch_layout(hidden, sizeof hidden - 1), 0);
    CHECK_U64(process_watch_layout(one, 40), 0);
    CHECK_U64(process_watch_layout("", 0), 0);
}
