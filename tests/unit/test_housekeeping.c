/* housekeeping: threads of this very process are found, settled, summed up and retired. */
#include "housekeeping_fixture.h"

#include <dirent.h>

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
    struct thread *thread = worker_settled(&worker);
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
    accounts_close_all(&house.accounts, 0, 0);
    REQUIRE(pthread_getcpuclockid(worker.thread, &clock) == 0);
    uint64_t used_ns = clock_ns(clock), weight_ns = weight_of("worker");
    CHECK(used_ns >= 200000000);
    CHECK(weight_ns >= used_ns - 1000000 && weight_ns <= used_ns + 11000000);
    accounts_close_all(&house.accounts, 0, 0); /* nothing is booked twice */
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
    accounts_close_all(&house.accounts, 0, 0);
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
    accounts_close_all(&house.accounts, 0, 0);
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
    accounts_close_all(&house.accounts, 0, 0);
    CHECK_U64(weight_of("worker"), 0);
    end_all();
}

TEST(threads_that_end_are_retired)
{
    struct worker worker;
    prepare();
    struct thread *thread = worker_settled(&worker);
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

static struct labels labels;

static bool has_label_entry(pid_t tid)
{
    return label_entry_of(&labels, tid) != LABEL_NO_ENTRY;
}

/* What a thread had among the labels goes with it; but not what the next of its number has, which
 * may have been born before the end of the first is seen. */
TEST(labels_go_with_their_thread_and_no_other)
{
    prepare();
    REQUIRE(labels_prepare(&labels) == 0);
    collector.labels = &labels;
    for (unsigned round = 0; round < 3; round++) {
        struct birth birth = {.tid = 0x7ffffff, .event.fd = -1, .period_ns = PERIOD_NS};
        uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
        struct thread *first = threads_admit(&collector.threads, &birth, now_ns);
        first->dead = true;
        label_entry_take(&labels, birth.tid);
        struct mailbox_slot *slot = mailbox_reserve(&mailbox);
        slot->birth = birth;
        if (round == 1)
            mailbox_post(&mailbox, slot);
        else
            mailbox_cancel(slot);
        struct thread *next = round == 2 ? threads_admit(&collector.threads, &birth, now_ns) : NULL;
        housekeeping_do(&house, &mailbox);
        CHECK(has_label_entry(birth.tid) == (round > 0));
        if (next != NULL)
            next->dead = true;
        while (mailbox_take(&mailbox, (uint32_t)(slot - mailbox.slots), &birth))
            continue;
    }
    housekeeping_do(&house, &mailbox);
    CHECK(!has_label_entry(0x7ffffff));
    end_all();
}

/* A scan finds what was left by threads that ended unseen. */
TEST(labels_of_threads_that_nobody_knew_are_swept)
{
    prepare();
    REQUIRE(labels_prepare(&labels) == 0);
    collector.labels = &labels;
    label_entry_take(&labels, 0x7ffffff);
    label_entry_take(&labels, getpid());
    house.scanned_ns = 0;
    housekeeping_do(&house, &mailbox);
    CHECK_U64(house.scans, 1);
    CHECK(!has_label_entry(0x7ffffff) && has_label_entry(getpid()));
    end_all();
}

/* Of this process; a sanitizer may have a thread of its own. */
static unsigned tasks_count(void)
{
    unsigned count = 0;
    DIR *tasks = opendir("/proc/self/task");
    REQUIRE(tasks != NULL);
    for (struct dirent *task; (task = readdir(tasks)) != NULL;)
        count += task->d_name[0] != '.';
    closedir(tasks);
    return count;
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
    /* All but the worker, of which the total knows: the one that runs this test. */
    CHECK_U64(collector.threads.total, total + tasks_count() - 1);
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

/* By WORKER, which waits, until now. */
static uint64_t worker_cpu_ns(const struct worker *worker)
{
    clockid_t clock;
    REQUIRE(pthread_getcpuclockid(worker->thread, &clock) == 0);
    return clock_ns(clock);
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
    /* Its start alone may take longer than a birth is waited for, on a busy machine or with a
     * sanitizer. */
    CHECK(!thread->settled || worker_cpu_ns(&worker) > 400000);
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
    accounts_close_all(&house.accounts, 0, 0);
    CHECK_U64(collector.threads.uncovered, 1);
    end_all();
}

/* What THREAD's event has counted since the sample that its books stand at. */
static uint64_t unbooked_ns(const struct thread *thread)
{
    uint64_t count_ns = 0;
    CHECK(event_read_count(&thread->event, &count_ns) == 0);
    return count_ns - thread->count_ns;
}

/* Of two that are settled and have worked since, one was ended by the exec, and one goes on in the
 * next program, where it may have used all of the time since. */
TEST(the_last_periods_before_an_exec_count)
{
    struct worker workers[2];
    struct thread *threads[2];
    prepare();
    for (int i = 0; i < 2; i++) {
        threads[i] = worker_settled(&workers[i]);
        worker_go(&workers[i]);
        worker_wait(&workers[i]);
        turn();
        REQUIRE(threads[i]->last_node != PROFILE_NONE);
    }
    for (int i = 0; i < 2; i++) {
        worker_go(&workers[i]);
        worker_wait(&workers[i]);
        worker_rest(&workers[i]);
    }
    uint64_t ended_ns = unbooked_ns(threads[0]), living_ns = unbooked_ns(threads[1]);
    uint64_t before_ns = weight_of("worker");
    CHECK(ended_ns > 40 * PERIOD_NS && living_ns > 40 * PERIOD_NS);
    threads[0]->dead = collector.exec_seen = true;
    accounts_close_all(&house.accounts, 0, 30 * PERIOD_NS);
    CHECK_U64(weight_of("worker") - before_ns, ended_ns + living_ns - 30 * PERIOD_NS);
    for (int i = 0; i < 2; i++)
        worker_end(&workers[i]);
    end_all();
}
