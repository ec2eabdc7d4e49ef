/* housekeeping: threads of this very process are found, settled, summed up and retired. */
#include "housekeeping.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#define PERIOD_NS 1000000u
#define SECOND_NS 1000000000ull

static struct arena arena;
static struct collector collector;
static struct housekeeping house;
static struct mailbox mailbox;
static struct config config = {.threads = CONFIG_THREADS_NAME};
static struct event_traits traits;

static const struct unwind_library no_library;

static void prepare(void)
{
    if (event_probe(&traits, true) != 0)
        SKIP("the kernel refuses perf_event_open");
    const struct collector_setup setup = {
        .arena = &arena,
        .config = &config,
        .plan = {.traits = &traits,
                 .period_ns = PERIOD_NS,
                 .budget_bytes = 8u << 20,
                 .app_pid = getpid()},
        .library = &no_library,
    };
    arena_destroy(&arena);
    memset(&mailbox, 0, sizeof mailbox);
    REQUIRE(collector_init(&collector, &setup) == 0);
    housekeeping_init(&house, &collector);
    house.own_tid = 0; /* the part of the helper is played by a thread to be found */
}

static void end_all(void)
{
    for (uint32_t i = 0; i < collector.threads.used; i++)
        event_close(&threads_at(&collector.threads, i)->event);
    modules_close(&collector.modules);
}

/* A turn of the helper. */
static void turn(void)
{
    collector_drain(&collector, UINT64_MAX);
    housekeeping_do(&house, &mailbox);
}

static uint64_t clock_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * SECOND_NS + (uint64_t)now.tv_nsec;
}

/* A thread that works when it is told to, for 50 ms a time. */
struct worker {
    pthread_t thread;
    pid_t tid;
    pthread_barrier_t turn;
    bool ends;
};

static void *work(void *argument)
{
    struct worker *worker = argument;
    prctl(PR_SET_NAME, "worker");
    worker->tid = (pid_t)syscall(SYS_gettid);
    for (;;) {
        pthread_barrier_wait(&worker->turn);
        pthread_barrier_wait(&worker->turn);
        if (worker->ends)
            return NULL;
        for (uint64_t end_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID) + 50000000;
             clock_ns(CLOCK_THREAD_CPUTIME_ID) < end_ns;)
            for (unsigned i = 0; i < 20000; i++)
                __asm__ volatile("");
    }
}

/* Returns once the worker stands at its first barrier, or has done what it was told. */
static void worker_wait(struct worker *worker)
{
    pthread_barrier_wait(&worker->turn);
}

static void worker_start(struct worker *worker)
{
    *worker = (struct worker){.tid = 0};
    pthread_barrier_init(&worker->turn, NULL, 2);
    REQUIRE(pthread_create(&worker->thread, NULL, work, worker) == 0);
    worker_wait(worker);
}

static void worker_go(struct worker *worker)
{
    pthread_barrier_wait(&worker->turn);
}

static void worker_end(struct worker *worker)
{
    worker->ends = true;
    worker_go(worker);
    pthread_join(worker->thread, NULL);
}

static void post(struct birth birth)
{
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    slot->birth = birth;
    mailbox_post(&mailbox, slot);
    collector_take_births(&collector, &mailbox);
}

static uint64_t weight_of(const char *name)
{
    const struct profile *profile = &collector.profile;
    uint64_t sum = 0;
    for (uint32_t i = 0; i < profile_node_count(profile); i++) {
        uint32_t root = i;
        while (profile_node_at(profile, root)->parent != PROFILE_NONE)
            root = profile_node_at(profile, root)->parent;
        uint64_t text = profile_frame_at(profile, profile_node_at(profile, root)->frame)->address;
        if (strcmp(stack_text(&collector.stacks, text), name) == 0)
            sum += profile_node_at(profile, i)->weight_ns;
    }
    return sum;
}

TEST(unknown_threads_are_found_and_settled)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    usleep(10000);
    turn();
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    CHECK(thread->scanned);
    CHECK_STR(thread->name, "worker");
    CHECK(threads_find(&collector.threads, getpid()) != NULL);
    usleep(5000);
    turn();
    CHECK(thread->settled);
    CHECK(thread->event.fd >= 0 && thread->event.mapping != NULL);
    CHECK(!house.settling_refused);
    worker_end(&worker);
    end_all();
}

/* It was settled this very moment: what would be tried again after a while is done at once. */
TEST(a_cut_stack_has_a_larger_copy_at_once)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    usleep(10000);
    turn();
    usleep(5000);
    turn();
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL && thread->settled);
    CHECK(thread->fitted_ns != 0);
    for (unsigned i = 0; i < 3; i++) { /* and not for ever, where more can't be had */
        thread->stack_bytes = 16384;
        thread->wants_more_stack = true;
        housekeeping_do(&house, &mailbox);
        CHECK((thread->stack_bytes > 16384) == (i < 2));
        CHECK(thread->wants_more_stack == (i == 2));
    }
    worker_end(&worker);
    end_all();
}

/* The kernel has the right of the last word on rounding; 10 ms is what a clock read from outside
 * may be late. */
TEST(weights_sum_up_to_the_clock)
{
    struct worker worker;
    clockid_t clock;
    prepare();
    worker_start(&worker);
    worker_go(&worker); /* 50 ms that nobody samples */
    worker_wait(&worker);
    usleep(10000);
    turn();
    usleep(5000);
    turn();
    for (unsigned i = 0; i < 3; i++) {
        worker_go(&worker);
        worker_wait(&worker);
        turn();
    }
    collector_drain(&collector, UINT64_MAX);
    housekeeping_close_accounts(&house, 0);
    REQUIRE(pthread_getcpuclockid(worker.thread, &clock) == 0);
    uint64_t used_ns = clock_ns(clock), weight_ns = weight_of("worker");
    CHECK(used_ns >= 200000000);
    CHECK(weight_ns >= used_ns - 1000000 && weight_ns <= used_ns + 11000000);
    housekeeping_close_accounts(&house, 0); /* nothing is booked twice */
    CHECK(weight_of("worker") - weight_ns < 1000000);
    worker_end(&worker);
    end_all();
}

/* The helper gets no processor until the end, and the first ring has room for a few samples. */
TEST(what_a_ring_had_no_room_for_is_counted_and_lost)
{
    struct worker worker;
    clockid_t clock;
    prepare();
    worker_start(&worker);
    struct event_shape shape = {
        .stack_bytes = 1024, .ring_bytes = 4096, .period_ns = PERIOD_NS, .disabled = false};
    struct birth birth = {
        .tid = worker.tid, .period_ns = PERIOD_NS, .stack_bytes = 1024, .name = "worker"};
    REQUIRE(pthread_getcpuclockid(worker.thread, &clock) == 0);
    birth.cpu_ns = clock_ns(clock);
    REQUIRE(event_open(&birth.event, &traits, &shape, worker.tid) == 0);
    REQUIRE(threads_admit(&collector.threads, &birth, 1) != NULL);
    worker_go(&worker);
    worker_wait(&worker);
    collector_drain(&collector, UINT64_MAX);
    CHECK(weight_of("worker") < 20000000);
    housekeeping_close_accounts(&house, 0);
    uint64_t used_ns = clock_ns(clock) - birth.cpu_ns, weight_ns = weight_of("worker");
    CHECK(weight_ns >= used_ns - 11000000 && weight_ns <= used_ns + 1000000);
    CHECK(collector.lost > 10);
    worker_end(&worker);
    end_all();
}

/* 50 ms before, 50 ms in and 50 ms after a pause; in it there are no samples at all. */
TEST(what_is_used_in_a_pause_is_in_no_account)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    for (unsigned i = 0; i < 2; i++) {
        usleep(5000);
        turn();
    }
    worker_go(&worker);
    worker_wait(&worker);
    turn();
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL && thread->settled);
    housekeeping_pause(&house);
    uint64_t before_ns = weight_of("worker");
    worker_go(&worker);
    worker_wait(&worker);
    CHECK(!ring_has_data(&thread->ring));
    turn();
    CHECK_U64(weight_of("worker"), before_ns);
    housekeeping_resume(&house);
    worker_go(&worker);
    worker_wait(&worker);
    turn();
    housekeeping_close_accounts(&house, 0);
    uint64_t after_ns = weight_of("worker") - before_ns;
    CHECK(before_ns >= 49000000 && before_ns < 50000000 + 25000000);
    CHECK(after_ns >= 49000000 && after_ns < 50000000 + 25000000);
    worker_end(&worker);
    end_all();
}

/* A thread settled, re-settled or ended in a pause takes nothing of it into its books. */
TEST(a_thread_that_comes_and_goes_in_a_pause_weighs_nothing)
{
    struct worker worker;
    prepare();
    housekeeping_pause(&house);
    worker_start(&worker);
    worker_go(&worker);
    worker_wait(&worker);
    for (unsigned i = 0; i < 3; i++) {
        usleep(5000);
        turn();
        worker_go(&worker);
        worker_wait(&worker);
    }
    REQUIRE(threads_find(&collector.threads, worker.tid) != NULL);
    CHECK(threads_find(&collector.threads, worker.tid)->settled);
    worker_end(&worker);
    turn();
    housekeeping_resume(&house);
    turn();
    housekeeping_close_accounts(&house, 0);
    CHECK_U64(weight_of("worker"), 0);
    end_all();
}

TEST(threads_that_end_are_retired)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    usleep(10000);
    turn();
    usleep(5000);
    turn();
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL && thread->settled);
    uint32_t live = collector.threads.live;
    int fd = thread->event.fd;
    worker_end(&worker);
    turn();
    CHECK(threads_find(&collector.threads, worker.tid) == NULL);
    CHECK_U64(collector.threads.live, live - 1);
    CHECK_U64(collector.threads.uncovered, 0);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    end_all();
}

/* Its end is noticed before its last word is read, which counts all the same. */
TEST(a_thread_that_is_known_to_be_dead_may_tell_of_its_end)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    post((struct birth){.tid = worker.tid, .event.fd = -1, .period_ns = PERIOD_NS});
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    thread->dead = true;
    post((struct birth){.tid = worker.tid, .ended = true, .cpu_ns = 777});
    CHECK_U64(thread->end_cpu_ns, 777);
    uint64_t total = collector.threads.total;
    usleep(10000);
    housekeeping_do(&house, &mailbox); /* /proc has it still */
    CHECK_U64(house.scans, 1);
    CHECK(threads_find(&collector.threads, worker.tid) == NULL);
    house.scanned_ns = 0;
    housekeeping_do(&house, &mailbox);
    CHECK_U64(house.scans, 2);
    CHECK(threads_find(&collector.threads, worker.tid) == NULL);
    CHECK_U64(collector.threads.total, total + 1); /* the one that runs this test */
    worker_end(&worker);
    end_all();
}

/* The record of its end was lost with others. */
TEST(a_thread_that_no_scan_sees_has_ended)
{
    prepare();
    struct birth birth = {.tid = 0x7ffffff, .event.fd = -1, .period_ns = PERIOD_NS};
    uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    struct thread *thread = threads_admit(&collector.threads, &birth, now_ns - 2 * SECOND_NS);
    struct thread *young;
    birth.tid = 0x7fffffe;
    young = threads_admit(&collector.threads, &birth, now_ns);
    thread->retry_ns = young->retry_ns = UINT64_MAX;
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    CHECK(threads_find(&collector.threads, 0x7ffffff) == NULL);
    CHECK(threads_find(&collector.threads, 0x7fffffe) == young);
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 777});
    CHECK_U64(thread->end_cpu_ns, 777); /* the helper was slow, and had this still to read */
    end_all();
}

/* Who has a slot reserved is about to come by itself. */
TEST(a_scan_waits_for_those_that_are_about_to_come)
{
    prepare();
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    CHECK_U64(house.scans, 0);
    mailbox_cancel(slot);
    housekeeping_do(&house, &mailbox);
    CHECK_U64(house.scans, 1);
    CHECK(!collector.scan_wanted);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    CHECK_U64(house.scans, 1); /* nobody wants another so soon */
    end_all();
}

/* It may be one of those: it has hardly run yet. One that has run for long has another origin. */
TEST(a_thread_that_may_yet_come_by_itself_is_left_alone)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    usleep(10000);
    house.scanned_ns = 0; /* due all the same */
    housekeeping_do(&house, &mailbox);
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    housekeeping_do(&house, &mailbox);
    CHECK(!thread->settled);
    worker_go(&worker);
    worker_wait(&worker);
    housekeeping_do(&house, &mailbox);
    CHECK(thread->settled);
    mailbox_cancel(slot);
    worker_end(&worker);
    end_all();
}

/* What it posted may hold samples already. */
TEST(a_thread_whose_birth_waits_is_left_alone)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    worker_go(&worker);
    worker_wait(&worker);
    struct mailbox_slot *slot = mailbox_reserve(&mailbox);
    REQUIRE(slot != NULL);
    slot->birth = (struct birth){.tid = worker.tid, .event.fd = -1, .period_ns = PERIOD_NS};
    mailbox_post(&mailbox, slot);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    CHECK(!thread->settled);
    collector_take_births(&collector, &mailbox);
    housekeeping_do(&house, &mailbox);
    CHECK(thread->settled);
    worker_end(&worker);
    end_all();
}

TEST(lost_mappings_are_read_again)
{
    prepare();
    void *code = mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(code != MAP_FAILED);
    CHECK(modules_find(&collector.modules, (uint64_t)(uintptr_t)code) == NULL);
    housekeeping_do(&house, &mailbox);
    CHECK(modules_find(&collector.modules, (uint64_t)(uintptr_t)code) == NULL);
    collector.maps_wanted = true;
    housekeeping_do(&house, &mailbox);
    CHECK(modules_find(&collector.modules, (uint64_t)(uintptr_t)code) != NULL);
    CHECK(!collector.maps_wanted);
    munmap(code, 8192);
    end_all();
}

TEST(a_thread_without_an_event_is_uncovered_at_the_end)
{
    prepare();
    struct birth birth = {.tid = 0x7ffffff, .event.fd = -1, .period_ns = PERIOD_NS};
    threads_admit(&collector.threads, &birth, clock_ns(CLOCK_MONOTONIC));
    housekeeping_close_accounts(&house, 0);
    CHECK_U64(collector.threads.uncovered, 1);
    end_all();
}

/* Its first ms is for others to stand for, the rest its own: it has used 50. */
TEST(a_thread_that_was_passed_over_is_settled_like_others)
{
    struct worker worker;
    prepare();
    worker_start(&worker);
    post((struct birth){.tid = worker.tid, .event.fd = -1, .one_in = 8, .passed_over = true});
    struct thread *thread = threads_find(&collector.threads, worker.tid);
    REQUIRE(thread != NULL);
    usleep(10000);
    housekeeping_do(&house, &mailbox);
    CHECK(!thread->settled); /* it has done nothing yet */
    worker_go(&worker);
    worker_wait(&worker);
    housekeeping_do(&house, &mailbox);
    CHECK(thread->settled);
    CHECK(thread->owed_ns >= 30 * PERIOD_NS && thread->owed_ns <= thread->base_cpu_ns - PERIOD_NS);
    CHECK_U64(thread->one_in, 1);
    worker_end(&worker);
    end_all();
}

TEST(a_thread_that_was_passed_over_and_ends_is_not_uncovered)
{
    prepare();
    post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 8, .passed_over = true});
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 100000});
    housekeeping_do(&house, &mailbox);
    CHECK(threads_find(&collector.threads, 0x7ffffff) == NULL);
    CHECK_U64(collector.threads.thinned, 1);
    CHECK_U64(collector.threads.uncovered, 0);
    end_all();
}

TEST(the_start_of_a_chosen_thread_stands_for_the_others)
{
    prepare();
    post((struct birth){.tid = 0x7ffffff,
                        .event.fd = -1,
                        .one_in = 8,
                        .cpu_ns = 60000,
                        .before_ns = 5000,
                        .own_ns = 55000,
                        .name = "short"});
    CHECK_U64(collector.profile.weight_ns, 8 * 5000);
    CHECK_U64(collector.threads.own_ns, 55000);
    collector.paused = true;
    post((struct birth){
        .tid = 0x7fffffe, .event.fd = -1, .cpu_ns = 60000, .before_ns = 5000, .own_ns = 55000});
    CHECK_U64(collector.profile.weight_ns, 8 * 5000);
    end_all();
}

static void threads_come_and_go(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 8, .passed_over = true});
        post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 100000});
        housekeeping_do(&house, &mailbox);
    }
}

/* The clock shows 2 ms more than all accounts. */
TEST(ends_are_booked_up_to_the_clock)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC); /* there are no others */
    collector.scan_wanted = false;
    collector.threads.own_ns = 7 * PERIOD_NS;
    threads_come_and_go(500);
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0); /* not yet */
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 2 * PERIOD_NS);
    housekeeping_close_accounts(&house, 10 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 3 * PERIOD_NS);
    end_all();
}

/* What it has used may be all that is missing, until its own account is closed. */
TEST(a_thread_that_lives_keeps_ends_from_being_booked)
{
    struct worker worker;
    prepare();
    threads_come_and_go(500);
    worker_start(&worker);
    post((struct birth){.tid = worker.tid, .event.fd = -1, .one_in = 8, .passed_over = true});
    worker_go(&worker);
    worker_wait(&worker);
    uint64_t shown_ns = collector.profile.weight_ns;
    house.ends_booked_ns = 0;
    housekeeping_book_ends(&house, shown_ns + 40 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, shown_ns);
    worker_end(&worker);
    end_all();
}

TEST(ends_in_a_pause_are_not_booked)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    collector.paused = true;
    threads_come_and_go(500);
    collector.paused = false;
    housekeeping_close_accounts(&house, 9 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 0);
    end_all();
}

/* One of 16 like it, with samples of 6 ms. */
static struct thread *chosen_thread(void)
{
    post((struct birth){.tid = 0x7fffffe, .event.fd = -1, .one_in = 16, .cpu_ns = 1000});
    struct thread *thread = threads_find(&collector.threads, 0x7fffffe);
    REQUIRE(thread != NULL);
    CHECK_U64(thread->birth_nominal_ns, PERIOD_NS / 8);
    uint32_t frame = profile_frame(&collector.profile, FRAME_OF_TEXT, 0);
    thread->weight_ns = 6 * PERIOD_NS;
    profile_add(&collector.profile, &frame, 1, 16 * thread->weight_ns, &thread->last_node);
    return thread;
}

static void chosen_ends(struct thread *thread, uint64_t used_ns)
{
    post((struct birth){.tid = thread->tid, .ended = true, .cpu_ns = 1000 + used_ns});
    thread->dead = true;
    housekeeping_do(&house, &mailbox);
}

/* Of a long life the first ms is weighed as that of sixteen, the rest as its own. */
TEST(a_long_life_does_not_stand_for_short_ones)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    chosen_ends(chosen_thread(), PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, 16 * PERIOD_NS);
    chosen_ends(chosen_thread(), 5 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, (16 + 16 + 4) * PERIOD_NS);
    end_all();
}

/* But for long ones that had no event. */
TEST(a_long_life_stands_for_as_much_of_others_as_there_was)
{
    prepare();
    house.scanned_ns = clock_ns(CLOCK_MONOTONIC);
    collector.scan_wanted = false;
    post((struct birth){.tid = 0x7ffffff, .event.fd = -1, .one_in = 16, .passed_over = true});
    post((struct birth){.tid = 0x7ffffff, .ended = true, .cpu_ns = 3 * PERIOD_NS});
    housekeeping_do(&house, &mailbox);
    CHECK_U64(collector.unplaced_ns, 2 * PERIOD_NS);
    chosen_ends(chosen_thread(), 5 * PERIOD_NS);
    CHECK_U64(collector.profile.weight_ns, (16 + 4 + 2) * PERIOD_NS);
    CHECK_U64(collector.unplaced_ns, 0);
    end_all();
}
