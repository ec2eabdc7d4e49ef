/* helper: how it is made, as a task or a thread, and in forked children; waiting for it, reaping
 * it. */
#include "helper_fixture.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/single_threaded.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

/* The same as a thread of ours. */
TEST(a_thread_is_apart_where_it_can_be)
{
    if (HELPER_IS_A_STRANGER)
        SKIP("the thread sanitizer does not survive in a task of that kind");
    int mine = open("/dev/null", O_RDONLY);
    REQUIRE(mine >= 0);
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_THREAD, look_around, &notes, HELPER_STDERR_STAYS) == 0);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK_U64(notes.done, 1);
    CHECK_I64(notes.pid, getpid());
    CHECK_I64(notes.parent, getppid());
    CHECK_I64(notes.lowest_fd, 0);
    CHECK_I64(notes.stderr_status, 0);
    CHECK_U64(notes.blocked_signals, ~0ull & ~(1ull << (SIGKILL - 1)) & ~(1ull << (SIGSTOP - 1)));
    CHECK_STR(notes.name, "selfsample");
    CHECK(!notes.app_was_gone);
    CHECK(__libc_single_threaded);
    CHECK_I64(fcntl(mine, F_GETFD), 0);
    close(mine);
    void *memory = helper.memory;
    helper_reap(&helper, 0);
    helper_free(&helper);
    unsigned char resident;
    CHECK(mincore(memory, 4096, &resident) == -1 && errno == ENOMEM);
}

/* SIGALRM ends a test that waits for ever. */
TEST(one_that_never_comes_apart_is_not_waited_for_for_ever)
{
    helper = (struct helper){0};
    alarm(20);
    helper_wait_apart(&helper);
    alarm(0);
    CHECK_U64(helper.is_apart, 0);
}

static void do_nothing(void *unused)
{
    (void)unused;
}

static int start_where_it_is_killed(void)
{
    if (filter_call(SYS_unshare, SECCOMP_RET_KILL_THREAD) != 0)
        return 77;
    alarm(8);
    helper = (struct helper){0};
    int result = helper_start(&helper, HELPER_THREAD, do_nothing, NULL, HELPER_STDERR_STAYS);
    return result == -ESRCH && helper.memory == NULL ? 0 : 1;
}

TEST(a_thread_that_is_killed_before_it_is_apart_is_not_waited_for)
{
    check_in_child(start_where_it_is_killed);
}

static void use_cpu(void *context)
{
    struct notes *found = context;
    uint64_t start_ns = helper_cpu_in_app_ns(found->helper);
    while (helper_cpu_in_app_ns(found->helper) - start_ns < 20000000 && found->go == 0)
        found->go = found->helper->kind == HELPER_APART;
    found->done = helper_cpu_in_app_ns(found->helper) / 1000000;
}

TEST(a_threads_time_is_in_the_process_clock)
{
    start(use_cpu, HELPER_STDERR_STAYS);
    end_status();
    CHECK_U64(notes.done, 0);
    helper = (struct helper){0};
    notes = (struct notes){.helper = &helper};
    REQUIRE(helper_start(&helper, HELPER_THREAD, use_cpu, &notes, HELPER_STDERR_STAYS) == 0);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    CHECK(notes.done >= 20);
    helper_reap(&helper, 0);
    helper_free(&helper);
}

TEST(it_cannot_be_started_without_memory)
{
    struct rlimit before, none;
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    none = before;
    none.rlim_cur = 1;
    helper = (struct helper){0};
    setrlimit(RLIMIT_AS, &none);
    int result = helper_start(&helper, HELPER_APART, look_around, &notes, HELPER_STDERR_STAYS);
    setrlimit(RLIMIT_AS, &before);
    CHECK_I64(result, -ENOMEM);
    CHECK(helper.memory == NULL);
    CHECK_U64(helper.tid, 0);
    CHECK(helper_wait_end(&helper, 0)); /* of one that never was */
}

/* Behind the guard page. AddressSanitizer knows it as the stack of a task that has ended. */
__attribute__((noinline, no_sanitize("address"))) static bool is_wiped(const uint8_t *memory,
                                                                       size_t bytes)
{
    for (size_t i = 4096; i < bytes; i++)
        if (memory[i] != 0)
            return false;
    return true;
}

/* In the child: 0, or what is wrong. */
static int start_anew(const uint8_t *memory)
{
    helper_forked(&helper);
    if (!helper.memory_is_fresh || helper.memory != memory)
        return 1;
    if (!is_wiped(memory, helper.memory_bytes))
        return 2;
    notes = (struct notes){.helper = &helper};
    if (helper_start(&helper, HELPER_APART, look_around, &notes, HELPER_STDERR_STAYS) != 0)
        return 3;
    if (!helper_wait_end(&helper, 20 * SECOND_NS) || notes.done != 1 || helper.memory != memory)
        return 4;
    /* Once used it is fit for no other. */
    if (helper_start(&helper, HELPER_APART, look_around, &notes, HELPER_STDERR_STAYS) != 0)
        return 5;
    return helper_wait_end(&helper, 20 * SECOND_NS) && helper.memory != memory ? 0 : 6;
}

TEST(a_forked_childs_helper_has_the_memory_wiped)
{
    start(look_around, HELPER_STDERR_STAYS);
    CHECK(helper_wait_end(&helper, 20 * SECOND_NS));
    REQUIRE(helper.memory_is_wiped); /* by every kernel that tests run on */
    pid_t child = fork();
    if (child == 0)
        _exit(start_anew(helper.memory));
    int status = -1;
    CHECK_I64(waitpid(child, &status, 0), child);
    CHECK_I64(status, 0);
    helper_reap(&helper, notes.pid);
    helper_free(&helper);
}

TEST(a_forked_childs_helper_maps_what_was_not_wiped)
{
    helper = (struct helper){.memory = (uint8_t *)4096, .pause_wanted = 1};
    helper_forked(&helper);
    CHECK(helper.memory == NULL);
    CHECK(!helper.memory_is_fresh);
    CHECK_U64(helper.pause_wanted, 1);
}

static void on_alarm(int unused)
{
    (void)unused;
}

static void *come_apart_late(void *unused)
{
    usleep(100000);
    __atomic_store_n(&helper.is_apart, 1, __ATOMIC_RELEASE);
    sys3(SYS_futex, &helper.is_apart, 1 /* FUTEX_WAKE */, 1);
    return unused;
}

TEST(the_wait_for_it_outlives_signals)
{
    const struct sigaction action = {.sa_handler = on_alarm};
    const struct itimerval often = {{0, 5000}, {0, 5000}}, never = {{0, 0}, {0, 0}};
    sigset_t alarms;
    pthread_t thread;
    helper = (struct helper){0};
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarms, NULL); /* in the other thread, which inherits that */
    REQUIRE(pthread_create(&thread, NULL, come_apart_late, NULL) == 0);
    pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    helper_wait_apart(&helper);
    CHECK_U64(helper.is_apart, 1);
    setitimer(ITIMER_REAL, &never, NULL);
    pthread_join(thread, NULL);
}
