/* births: what a thread posts of itself, and when it posts nothing. */
#include "session.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "refusal.h"
#include "sys.h"
#include "session_fixture.h"

#define PERIOD_NS 1000000u

static struct session *session_or_skip(void)
{
    return session_made(PERIOD_NS);
}

static bool is_mapped(const void *address)
{
    return msync((void *)(uintptr_t)address, EVENT_PAGE_BYTES, MS_ASYNC) == 0;
}

static struct mailbox_slot *post(struct session *session)
{
    struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
    REQUIRE(slot != NULL);
    session_open_birth(session, slot);
    return slot;
}

TEST(a_thread_posts_its_event)
{
    struct birth birth;
    struct session *session = session_or_skip();
    struct mailbox_slot *slot = post(session);
    CHECK(slot->own_id != 0);
    CHECK(fcntl(slot->own_fd, F_GETFD) == -1 && errno == EBADF);
    REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
    CHECK_I64(birth.tid, syscall(SYS_gettid));
    CHECK_I64(birth.refusal, 0);
    CHECK_I64(birth.event.fd, -1);
    CHECK_U64(birth.nominal_ns, 2 * PERIOD_NS);
    CHECK(birth.period_ns <= birth.nominal_ns && birth.stack_bytes >= 4096);
    CHECK(birth.before_ns > 0 && !birth.ended);
    CHECK(is_mapped(birth.event.mapping));
    event_close(&birth.event);
}

/* A thread that ended unseen has left its label; this one, of the same number, may never set any.
 */
TEST(a_birth_has_no_label_of_a_dead_thread)
{
    struct birth birth;
    struct session *session = session_or_skip();
    REQUIRE(labels_prepare(&session->labels) == 0);
    pid_t tid = (pid_t)syscall(SYS_gettid);
    label_entry_take(&session->labels, tid);
    label_entry_take(&session->labels, tid + 1);
    post(session);
    CHECK_U64(label_entry_of(&session->labels, tid), LABEL_NO_ENTRY);
    CHECK(label_entry_of(&session->labels, tid + 1) != LABEL_NO_ENTRY);
    REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
    event_close(&birth.event);
}

/* Where the helper may not open events of its own: a plain period, or where threads come fast one
 * that sees short lives as well; and none is passed over, since it would have none for good. */
TEST(threads_that_cannot_be_settled_have_events_that_do_without)
{
    uint64_t least_ns = UINT64_MAX;
    for (uint32_t i = 0; i < 64; i++) {
        struct birth birth;
        struct session *session = session_or_skip();
        session->seed = i;
        session->born_unsettled = 1;
        session->births_one_in = i < 32 ? 1 : 8;
        post(session);
        REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
        CHECK(birth.plain == (i < 32) && birth.one_in == 1 && !birth.passed_over);
        CHECK(birth.event.mapping != NULL);
        if (birth.plain)
            CHECK(birth.period_ns >= PERIOD_NS / 4 * 3);
        else if (birth.period_ns < least_ns)
            least_ns = birth.period_ns;
        event_close(&birth.event);
    }
    CHECK(least_ns < PERIOD_NS / 4);
}

TEST(a_thread_that_nobody_takes_over_posts_nothing)
{
    struct session *session = session_or_skip();
    session->helper.tid = 0; /* it was killed */
    CHECK_U64(post(session)->state, MAILBOX_FREE);
    session->helper.tid = 1;
    session->finish_wanted = SESSION_STOPS;
    CHECK_U64(post(session)->state, MAILBOX_FREE);
    session->finish_wanted = SESSION_GOES_ON;
    session->hushed = 1;
    CHECK_U64(post(session)->state, MAILBOX_FREE);
    session->hushed = 0;
    session->app_pid = 0;
    CHECK_U64(post(session)->state, MAILBOX_FREE);
    CHECK_U64(session->mailbox.unread, 0);
}

/* No mapping of more than BYTES, as where locked memory is used up. */
static int refuse_large_mappings(unsigned bytes)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, bytes, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    return filter_begin(code, sizeof code / sizeof *code);
}

static struct session *session_of_child;

static struct birth birth_taken(struct session *session)
{
    struct birth birth = {.refusal = 1};
    struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
    session_open_birth(session, slot);
    mailbox_take(&session->mailbox, (uint32_t)(slot - session->mailbox.slots), &birth);
    return birth;
}

static int birth_among_many(void)
{
    struct session *session = session_of_child;
    session->birth_ring_bytes = 65536;
    size_t room = event_mapping_bytes(16384);
    if (refuse_large_mappings((unsigned)room) != 0)
        return 77;
    struct birth birth = birth_taken(session);
    if (birth.refusal != 0)
        return 1;
    /* Eight records of what is copied, as of a larger one. */
    struct event_shape shape = {.stack_bytes = birth.stack_bytes};
    if (birth.event.mapping_bytes != room || 8 * event_record_bytes(&shape) > 16384)
        return 2;
    /* Down to the least that is of use, and no further. */
    if (refuse_large_mappings((unsigned)room - 1) != 0)
        return 77;
    birth = birth_taken(session);
    return birth.refusal == -EPERM && birth.event.mapping == NULL ? 0 : 3;
}

TEST(a_thread_that_may_lock_little_memory_has_a_small_ring)
{
    session_of_child = session_or_skip();
    session_of_child->config.engine = CONFIG_ENGINE_PERF;
    int result = in_child(birth_among_many);
    if (result == 77)
        SKIP("no seccomp filter");
    CHECK_I64(result, 0);
}

TEST(the_first_thread_has_not_run_before)
{
    struct birth birth;
    struct session *session = session_or_skip();
    session_open_first(session);
    CHECK(session->cpu_at_start_ns > 0);
    REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
    CHECK_I64(birth.tid, session->first_tid);
    CHECK_U64(birth.before_ns, 0);
    event_close(&birth.event);
}

TEST(a_first_thread_without_a_slot)
{
    struct session *session = session_or_skip();
    for (unsigned i = 0; i < MAILBOX_SLOTS; i++)
        session->mailbox.slots[i].state = MAILBOX_RESERVED;
    session_open_first(session);
    CHECK_I64(session->first_tid, syscall(SYS_gettid));
    CHECK_U64(session->mailbox.unread, 0);
}

TEST(an_end_tells_the_clock)
{
    struct birth birth;
    struct session *session = session_or_skip();
    session_tell_end(session);
    REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
    CHECK(birth.ended && birth.cpu_ns > 0);
    CHECK_I64(birth.tid, syscall(SYS_gettid));
}

TEST(what_the_helper_has_not_taken_is_ended)
{
    struct birth birth;
    struct session *session = session_or_skip();
    const void *mapping = post(session)->birth.event.mapping;
    session_tell_end(session);
    CHECK(is_mapped(mapping));
    session_discard_births(session);
    CHECK(!is_mapped(mapping));
    CHECK_U64(session->mailbox.unread, 0);
    CHECK(!mailbox_take(&session->mailbox, 0, &birth));
}

/* A number that others have closed and put a file on is none of ours any more. */
TEST(a_forked_child_closes_the_copies_of_events_alone)
{
    struct event event;
    struct session *session = session_or_skip();
    const struct event_shape shape = {
        .period_ns = PERIOD_NS, .stack_bytes = 1024, .ring_bytes = 16384};
    struct mailbox_slot *own = mailbox_reserve(&session->mailbox);
    struct mailbox_slot *younger = mailbox_reserve(&session->mailbox);
    struct mailbox_slot *foreign = mailbox_reserve(&session->mailbox);
    REQUIRE(event_open(&event, &session->traits, &shape, 0) == 0);
    own->own_fd = younger->own_fd = event.fd; /* whose event the fork has not copied */
    younger->own_id = event.id + 1;
    own->own_id = foreign->own_id = event.id;
    foreign->own_fd = open("/dev/null", O_RDONLY);
    session_abandon(session, (struct quiet_fork){0});
    CHECK(fcntl(own->own_fd, F_GETFD) == -1 && errno == EBADF);
    CHECK(fcntl(foreign->own_fd, F_GETFD) != -1);
    close(foreign->own_fd);
    event.fd = -1;
    event_close(&event);
}

#define FORK_WAITS_NS 20000000u /* at least, where it has to */

static struct session *session_of_threads;
static uint64_t fork_asked_ns;
static volatile bool went_on;

static void *look_while_opening(void *unused)
{
    struct session *session = session_of_threads;
    while (!quiet_is_asked(&session->quiet) && !went_on)
        continue;
    usleep(1000);
    bool too_early = went_on && sys_clock_ns(CLOCK_MONOTONIC) - fork_asked_ns < FORK_WAITS_NS;
    __atomic_sub_fetch(&session->births_opening, 1, __ATOMIC_SEQ_CST);
    return too_early ? unused : NULL;
}

/* A descriptor that no slot tells of yet is not one that a child may get. */
TEST(a_fork_waits_for_a_descriptor_that_is_not_noted_yet)
{
    pthread_t thread;
    void *too_early;
    session_of_threads = session_or_skip();
    session_of_threads->births_opening = 1;
    went_on = false;
    fork_asked_ns = sys_clock_ns(CLOCK_MONOTONIC);
    REQUIRE(pthread_create(&thread, NULL, look_while_opening, session_of_threads) == 0);
    struct quiet_fork fork = session_quiet(session_of_threads);
    went_on = true;
    session_resume(session_of_threads, fork);
    pthread_join(thread, &too_early);
    CHECK(too_early == NULL);
    session_of_threads->births_opening = 1; /* for ever */
    session_resume(session_of_threads, session_quiet(session_of_threads));
}

static void *be_born(void *slot)
{
    session_open_birth(session_of_threads, slot);
    return NULL;
}

/* The other way round, for 2 ms at the most. Where this thread is kept from looking within those it
 * looks again. */
TEST(a_birth_waits_for_a_fork_under_way)
{
    unsigned looks = 0;
    for (unsigned i = 0; i < 100 && looks < 5; i++) {
        pthread_t thread;
        struct birth birth;
        struct session *session = session_of_threads = session_or_skip();
        struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
        uint64_t start_ns = sys_clock_ns(CLOCK_MONOTONIC);
        struct quiet_fork fork = session_quiet(session);
        REQUIRE(pthread_create(&thread, NULL, be_born, slot) == 0);
        usleep(1000);
        bool is_open = __atomic_load_n(&session->mailbox.unread, __ATOMIC_SEQ_CST) != 0;
        bool is_in_time = sys_clock_ns(CLOCK_MONOTONIC) - start_ns < 1900000;
        CHECK(!is_open || !is_in_time);
        looks += is_in_time;
        session_resume(session, fork);
        pthread_join(thread, NULL);
        CHECK(slot->own_id != 0);
        CHECK_U64(session->births_opening, 0);
        REQUIRE(mailbox_take(&session->mailbox, 0, &birth));
        event_close(&birth.event);
    }
}
