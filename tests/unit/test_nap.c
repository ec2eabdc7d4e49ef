/* nap: when the helper sleeps first, and when it has nothing to do afterwards. */
#include "nap.h"

#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "session_fixture.h"

#define PERIOD_NS 2000000u

/* Of this process, as if it were the helper's app; its thread has posted its event. */
static struct session *session_or_skip(void)
{
    struct session *session = session_made(PERIOD_NS);
    session->helper.app_pid = getppid(); /* the helper's parent is alive */
    session_open_first(session);
    return session;
}

static struct birth *birth_of(struct session *session)
{
    return &session->mailbox.slots[0].birth;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void burn(uint64_t ns)
{
    uint64_t end_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) + ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns)
        continue;
}

static void ends_early(struct session *session)
{
    session->finish_wanted = SESSION_ENDS;
}

static bool nap(struct session *session)
{
    bool nothing = nap_until_asked(session);
    session_discard_births(session);
    return nothing;
}

/* A thread whose birth was under way when the last session ended, with its timer's ring. (The event
 * of this thread may have a sample all the same, where its period was drawn short.) */
TEST(a_ring_that_was_unmapped_is_not_looked_at)
{
    bool nothing = false;
    for (int i = 0; i < 50 && !nothing; i++) {
        struct session *session = session_or_skip();
        struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
        static struct timer_slot ended, *timer = &ended;
        slot->birth = (struct birth){.tid = getpid(),
                                     .event = {.fd = -1,
                                               .id = timer_slot_life(timer) + 1,
                                               .mapping = (void *)4096,
                                               .mapping_bytes = 65536,
                                               .timer = timer},
                                     .period_ns = PERIOD_NS};
        mailbox_post(&session->mailbox, slot);
        ends_early(session);
        nothing = nap(session);
    }
    CHECK(nothing);
}

TEST(a_process_that_ends_without_a_sample_needs_nothing)
{
    bool nothing = false;
    for (int i = 0; i < 50 && !nothing; i++) {
        struct session *session = session_or_skip();
        ends_early(session);
        nothing = nap(session);
    }
    CHECK(nothing);
}

TEST(a_sample_is_to_be_written)
{
    struct session *session = session_or_skip();
    session->cpu_at_start_ns = UINT64_MAX / 2; /* nor is there time that no sample is of */
    burn(3 * PERIOD_NS);
    ends_early(session);
    CHECK(!nap(session));
}

/* The event's samples are somewhere else. */
static bool nap_without_samples(bool kernel_frames, uint64_t used_ns)
{
    struct session *session = session_or_skip();
    struct event *event = &birth_of(session)->event;
    struct event other = *event;
    const struct event_shape shape = {.period_ns = 1u << 30, .stack_bytes = 1024};
    if (event_open(&other, &session->traits, &shape, 0) != 0)
        return !kernel_frames;
    event_close(event);
    *event = other;
    session->traits.kernel_frames = kernel_frames;
    burn(used_ns);
    ends_early(session);
    return nap(session);
}

/* Unless all that it has done is too short for a file. */
TEST(where_the_kernels_time_is_not_sampled_it_may_have_been_that)
{
    CHECK(nap_without_samples(true, 3 * PERIOD_NS));
    CHECK(!nap_without_samples(false, 3 * PERIOD_NS));
    CHECK(nap_without_samples(false, 0));
}

TEST(whoever_wants_a_summary_gets_one)
{
    struct session *session = session_or_skip();
    session->config.summary = true;
    ends_early(session);
    CHECK(!nap(session));
    session = session_or_skip();
    strcpy(session->config.report_path, "/nowhere");
    ends_early(session);
    CHECK(!nap(session));
}

TEST(a_process_that_is_gone_needs_nothing)
{
    bool nothing = false;
    for (int i = 0; i < 50 && !nothing; i++) {
        struct session *session = session_or_skip();
        session->helper.app_pid = getppid() + 1;
        nothing = nap(session);
    }
    CHECK(nothing);
}

/* It is not asked for anything, and there is no sample: this thread, which is the helper here, may
 * make one of itself. */
TEST(it_sleeps_for_some_periods_and_looks_again)
{
    bool slept = false;
    for (int i = 0; i < 50 && !slept; i++) {
        struct session *session = session_or_skip();
        birth_of(session)->period_ns = PERIOD_NS;
        uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
        CHECK(!nap_until_asked(session));
        slept = now_ns(CLOCK_MONOTONIC) - start_ns >= 4000000;
        session_discard_births(session);
    }
    CHECK(slept);
}

TEST(it_sleeps_no_longer_than_the_ring_bears)
{
    struct session *session = session_or_skip();
    burn(3 * PERIOD_NS);
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < 20; i++) {
        birth_of(session)->period_ns = 20000; /* the ring has room for four samples */
        uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
        CHECK(!nap_until_asked(session));
        uint64_t short_ns = now_ns(CLOCK_MONOTONIC) - start_ns;
        least_ns = short_ns < least_ns ? short_ns : least_ns;
    }
    CHECK(least_ns >= 40000 && least_ns < 1000000);
    session_discard_births(session);
}

TEST(it_waits_for_the_first_birth)
{
    struct session *session = session_or_skip();
    session_discard_births(session);
    uint64_t start_ns = now_ns(CLOCK_MONOTONIC);
    CHECK(!nap_until_asked(session));
    CHECK(now_ns(CLOCK_MONOTONIC) - start_ns >= 4000000);
}

/* A child's event, so that this process stays what it is. */
TEST(a_process_that_becomes_another_program_needs_nothing)
{
    bool nothing = false;
    for (int i = 0; i < 50 && !nothing; i++) {
        struct session *session = session_or_skip();
        session->cpu_at_start_ns = UINT64_MAX / 2; /* what a fork takes is no time of the child's */
        int ready[2];
        REQUIRE(pipe(ready) == 0);
        session_discard_births(session);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            close(ready[1]);
            if (read(ready[0], &byte, 1) == 1)
                execl("/bin/true", "true", (char *)NULL);
            _exit(1);
        }
        /* No sample before the exec, which takes ms where page faults are dear. */
        struct event_shape shape = {
            .stack_bytes = 1024, .ring_bytes = 16384, .period_ns = 1000ull * PERIOD_NS};
        struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
        slot->birth = (struct birth){.tid = child, .stack_bytes = 1024, .period_ns = PERIOD_NS};
        REQUIRE(event_open(&slot->birth.event, &session->traits, &shape, child) == 0);
        mailbox_post(&session->mailbox, slot);
        CHECK_I64(write(ready[1], "x", 1), 1);
        CHECK_I64(waitpid(child, NULL, 0), child);
        close(ready[0]);
        close(ready[1]);
        nothing = nap(session);
    }
    CHECK(nothing);
}
