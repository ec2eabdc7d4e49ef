/* Births of threads and their ends, the app's side of them. Runs in these threads, and where a
 * session begins or ends. Never allocates, never touches errno. */
#include "session.h"

#include <sys/prctl.h>
#include <sys/resource.h>

#include "engine.h"
#include "sampling.h"
#include "sys.h"

/* Of the first thread: room for the samples of the time that the helper may need to start, and no
 * more, since mapping it is a good part of what a short process and a fork pay. */
#define FIRST_STACK_BYTES  15872u
#define FIRST_RING_BYTES   (64u * 1024) /* four records */
#define FIRST_RING_RATE_HZ 2000u
#define FASTER_RING_BYTES  (256u * 1024)
#define BIRTH_RING_BYTES   (64u * 1024)
#define BIRTH_RECORDS      8u /* in its ring, see sampling.h */
#define LEAST_RING_BYTES   (16u * 1024)
#define BIRTH_SPARE_BYTES  48u /* of each, for other records */

/* A fork waits so long for births that have begun, 20 ms and, as sleeps are late, up to 45; a birth
 * for forks, which may follow on each other all the time, a tenth of that. */
#define OTHERS_PART_NS 50000u
#define BIRTHS_PARTS   400u
#define FORKS_PARTS    40u

/* A thread that has used less by its end can't have lost much to switches. */
#define SWITCHES_TOLD_NS 4000000u

#define DESCRIPTORS_ASKED 32u /* about so many are remembered */

/* A helper that many births wait for is woken before its time: their rings hold locked memory. */
#define BIRTHS_TO_WAKE 48u

/* The calling thread's timer, instead of an event. */
static void birth_open_timer(struct session *session, struct birth *birth)
{
    uint64_t random = sampling_mix(session->seed + (uint64_t)birth->tid);
    birth->refusal =
        engine_open_timer(&birth->event, &session->timers, birth->tid, session->period_ns, random);
    if (birth->refusal != 0)
        return;
    birth->passed_over = birth->plain = false;
    birth->one_in = 1;
    birth->period_ns = birth->event.timer->period_ns;
    birth->stack_bytes = birth->event.timer->stack_bytes;
}

static void pause_for_others(void)
{
    struct timespec part = {0, OTHERS_PART_NS};
    sys5(SYS_ppoll, NULL, 0, &part, NULL, 0);
}

/*
 * From here to opening_end the calling thread may have a descriptor that its slot does not tell of:
 * a child that is forked then would not know it. So either the fork sees us and waits, or we see it
 * and wait; a fork that takes long has copied the descriptors long before the memory.
 */
static void opening_begin(struct session *session)
{
    for (unsigned i = 0; i < FORKS_PARTS; i++) {
        __atomic_add_fetch(&session->births_opening, 1, __ATOMIC_SEQ_CST);
        if (!quiet_is_asked(&session->quiet))
            return;
        __atomic_sub_fetch(&session->births_opening, 1, __ATOMIC_SEQ_CST);
        pause_for_others();
    }
    __atomic_add_fetch(&session->births_opening, 1, __ATOMIC_SEQ_CST);
}

static void opening_end(struct session *session)
{
    __atomic_sub_fetch(&session->births_opening, 1, __ATOMIC_SEQ_CST);
}

void session_wait_births(const struct session *session)
{
    for (unsigned i = 0; i < BIRTHS_PARTS; i++) {
        if (__atomic_load_n(&session->births_opening, __ATOMIC_SEQ_CST) == 0)
            return;
        pause_for_others();
    }
}

/* Opens the calling thread's event. Its slot knows the descriptor before a child can have it that
 * another thread forks. (One that a signal handler of this thread forks goes on here itself.) */
static int slot_open_event(struct session *session, struct mailbox_slot *slot,
                           const struct event_shape *shape)
{
    struct event *event = &slot->birth.event;
    opening_begin(session);
    int result = event_open_unmapped(event, &session->traits, shape, 0);
    slot->own_fd = event->fd;
    slot->own_id = event->id;
    opening_end(session);
    if (result == 0)
        result = event_map(event, shape);
    return result;
}

/* The copy of which BIRTH_RECORDS fit the ring. */
static uint32_t stack_bytes_of(size_t ring_bytes)
{
    const struct event_shape empty = {.ring_bytes = ring_bytes};
    return (uint32_t)(ring_bytes / BIRTH_RECORDS - event_record_bytes(&empty) - BIRTH_SPARE_BYTES) &
           ~7u;
}

/* As the slot's birth says, as large as SHAPE or as locked memory allows. */
static void birth_open_perf(struct session *session, struct mailbox_slot *slot,
                            struct event_shape shape)
{
    struct birth *birth = &slot->birth;
    birth->refusal = slot_open_event(session, slot, &shape);
    /* No more locked memory: many threads are being born at once. */
    while (birth->refusal == -EPERM && shape.ring_bytes > LEAST_RING_BYTES) {
        shape.ring_bytes /= 2;
        if (shape.stack_bytes > stack_bytes_of(shape.ring_bytes))
            shape.stack_bytes = stack_bytes_of(shape.ring_bytes);
        birth->refusal = slot_open_event(session, slot, &shape);
    }
    birth->stack_bytes = shape.stack_bytes;
}

/* By perf where it is to be had, by a timer where that is wanted, or nothing else is left. */
static void birth_open_event(struct session *session, struct mailbox_slot *slot,
                             const struct event_shape *shape)
{
    struct birth *birth = &slot->birth;
    if (session->traits.by_timer) {
        birth_open_timer(session, birth);
        return;
    }
    if (birth->passed_over)
        return;
    birth_open_perf(session, slot, *shape);
    if (birth->refusal != 0 && session->config.engine == CONFIG_ENGINE_AUTO)
        birth_open_timer(session, birth);
}

/*
 * Draws by lot what the birth's event is to be, or that it has none. Where nobody can settle it, it
 * must not be passed over; and it has a plain period, which is bearable for as long as it lives,
 * unless threads come and go so fast that few would be seen then.
 */
static void birth_draw(struct session *session, struct birth *birth)
{
    bool settles = __atomic_load_n(&session->born_unsettled, __ATOMIC_RELAXED) == 0;
    birth->plain = !settles && birth->one_in == 1;
    if (!settles)
        birth->one_in = 1;
    uint64_t number = __atomic_fetch_add(&session->births, 1, __ATOMIC_RELAXED);
    uint64_t random = sampling_birth_random(session->seed, number, birth->one_in);
    if (birth->plain) {
        birth->period_ns = sampling_settled_period_ns(session->period_ns, random);
        return;
    }
    birth->passed_over = !sampling_birth_is_chosen(session->seed, number, birth->one_in);
    bool is_later = settles && birth->one_in == 1 && birth->tid != session->first_tid;
    birth->nominal_ns = is_later ? sampling_later_birth_nominal_ns(session->period_ns)
                                 : sampling_birth_nominal_ns(session->period_ns, birth->one_in);
    uint64_t late_ns = __atomic_load_n(&session->lateness.ns, __ATOMIC_RELAXED);
    birth->fast_rarity =
        is_later ? sampling_later_birth_fast_rarity(session->period_ns, number) : 1;
    struct sampling_birth drawn =
        sampling_birth_draw(birth->nominal_ns, birth->fast_rarity, late_ns, random);
    birth->shortest_ns = drawn.shortest_ns;
    birth->period_ns = drawn.period_ns;
}

/* Opens the calling thread's event, which does not count yet; cpu_ns is when we began. Of one that
 * is passed over nothing is asked, not even its name. */
static void birth_open(struct session *session, struct mailbox_slot *slot,
                       const struct event_shape *unperiodic, uint32_t one_in)
{
    struct birth *birth = &slot->birth;
    *birth = (struct birth){.tid = birth->tid, .event.fd = -1, .one_in = one_in};
    birth_draw(session, birth);
    if (birth->passed_over && !session->traits.by_timer)
        return;
    birth->cpu_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    if (birth->tid != session->first_tid)
        birth->before_ns = birth->cpu_ns;
    struct event_shape shape = *unperiodic;
    shape.disabled = true;
    shape.period_ns = birth->period_ns;
    birth_open_event(session, slot, &shape);
    sys2(SYS_prctl, PR_GET_NAME, birth->name);
}

/* Posts it, and only then lets it count: what all this costs is not the app's. Returns how many
 * posts wait for the helper. */
static uint32_t birth_begin(struct session *session, struct mailbox_slot *slot)
{
    struct birth *birth = &slot->birth;
    struct event event = birth->event;
    birth->event.fd = -1; /* this side's; closed below */
    if (birth->cpu_ns != 0) {
        uint64_t start_cpu_ns = birth->cpu_ns;
        birth->cpu_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
        birth->own_ns = birth->cpu_ns - start_cpu_ns;
    }
    uint32_t waiting = mailbox_post(&session->mailbox, slot);
    if (event.mapping != NULL)
        engine_enable(&event, &session->timers);
    event_close_shared_fd(event.fd, event.id);
    return waiting;
}

void session_open_birth(struct session *session, struct mailbox_slot *slot)
{
    if (session_is_hushed(session)) {
        mailbox_cancel(slot);
        return;
    }
    uint32_t ring_bytes = __atomic_load_n(&session->birth_ring_bytes, __ATOMIC_RELAXED);
    uint32_t one_in = __atomic_load_n(&session->births_one_in, __ATOMIC_RELAXED);
    if (ring_bytes == 0)
        ring_bytes = BIRTH_RING_BYTES;
    const struct event_shape shape = {.ring_bytes = ring_bytes,
                                      .stack_bytes = stack_bytes_of(ring_bytes)};
    slot->birth.tid = (pid_t)sys0(SYS_gettid);
    /* The session may have been stopped since the thread was made; and of a helper that was killed
     * nobody takes the event over. */
    if (session->app_pid == 0 ||
        __atomic_load_n(&session->finish_wanted, __ATOMIC_ACQUIRE) == SESSION_STOPS ||
        __atomic_load_n(&session->helper.tid, __ATOMIC_RELAXED) == 0) {
        mailbox_cancel(slot);
        return;
    }
    labels_forget(&session->labels, slot->birth.tid);
    birth_open(session, slot, &shape, one_in != 0 ? one_in : 1);
    uint32_t waiting = birth_begin(session, slot);
    if (waiting % BIRTHS_TO_WAKE == 0 ||
        __atomic_load_n(&session->sleeps_long, __ATOMIC_SEQ_CST) != 0)
        helper_wake(&session->helper);
}

/* What such a thread has used so far is its next sample's, unless it is older than the session. */
static void open_for(struct session *session, struct mailbox_slot *slot, pid_t tid)
{
    struct birth *birth = &slot->birth;
    *birth = (struct birth){.tid = tid, .event.fd = -1};
    birth_open_timer(session, birth);
    if (birth->refusal != 0) {
        mailbox_cancel(slot);
        return;
    }
    birth->cpu_ns = sys_clock_ns(TIMERS_CLOCK(tid));
    birth->before_ns = session->had_threads ? 0 : birth->cpu_ns;
    struct event event = birth->event;
    mailbox_post(&session->mailbox, slot);
    engine_enable(&event, &session->timers);
}

void session_open_asked(struct session *session)
{
    pid_t tid;
    while ((tid = timers_take_asked(&session->timers)) != 0) {
        struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
        if (slot == NULL)
            return;
        open_for(session, slot, tid);
    }
}

/* Most often it is the first of the process. The helper comes apart from the program meanwhile. */
int session_open_first(struct session *session)
{
    int refusal = 0;
    session->cpu_at_start_ns = sys_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    uint64_t thread_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    session->first_clock.ahead_ns =
        session->cpu_at_start_ns > thread_ns ? session->cpu_at_start_ns - thread_ns : 0;
    const struct event_shape shape = {.stack_bytes = FIRST_STACK_BYTES,
                                      .ring_bytes = session->config.rate_hz <= FIRST_RING_RATE_HZ
                                                        ? FIRST_RING_BYTES
                                                        : FASTER_RING_BYTES};
    struct mailbox_slot *slot = mailbox_reserve(&session->mailbox);
    session->first_tid = (pid_t)sys0(SYS_gettid);
    if (slot != NULL) { /* else many threads were being made when the last session ended */
        slot->birth.tid = session->first_tid;
        birth_open(session, slot, &shape, 1);
        refusal = slot->birth.refusal;
    }
    helper_wait_apart(&session->helper);
    if (slot != NULL)
        birth_begin(session, slot);
    return refusal;
}

static uint64_t own_switches(uint64_t cpu_ns)
{
    struct rusage usage;
    if (cpu_ns < SWITCHES_TOLD_NS || sys2(SYS_getrusage, RUSAGE_THREAD, &usage) != 0)
        return 0;
    return (uint64_t)usage.ru_nvcsw + (uint64_t)usage.ru_nivcsw;
}

void session_tell_end(struct session *session)
{
    if (session_is_hushed(session))
        return;
    struct mailbox_slot *slot =
        session_is_mine(session) ? mailbox_reserve(&session->mailbox) : NULL;
    pid_t tid = (pid_t)sys0(SYS_gettid);
    timers_leave(&session->timers, tid);
    if (slot == NULL)
        return;
    uint64_t cpu_ns = sys_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    slot->birth = (struct birth){
        .tid = tid, .cpu_ns = cpu_ns, .switches = own_switches(cpu_ns), .ended = true};
    if (mailbox_post(&session->mailbox, slot) % BIRTHS_TO_WAKE == 0)
        helper_wake(&session->helper);
}

/*
 * A fork copies the descriptors first and the memory later. So a slot may tell of an event that is
 * younger than the copies, while a copy's own slot says that it was closed: all that slots remember
 * is compared. Descriptors are few, slots many: the kernel is asked once for each of the former.
 */
void session_close_births(const struct session *session)
{
    const struct mailbox *mailbox = &session->mailbox;
    struct {
        int fd;
        uint64_t id;
    } asked[DESCRIPTORS_ASKED], *here;
    for (uint32_t i = 0; i < DESCRIPTORS_ASKED; i++)
        asked[i].fd = -1;
    for (uint32_t i = 0; i < mailbox_used(mailbox); i++) {
        const struct mailbox_slot *slot = &mailbox->slots[i];
        if (slot->own_id == 0)
            continue;
        here = &asked[(uint32_t)slot->own_fd % DESCRIPTORS_ASKED];
        if (here->fd != slot->own_fd)
            here->id = event_id(slot->own_fd);
        here->fd = slot->own_fd;
        if (here->id == slot->own_id)
            sys_close(slot->own_fd);
    }
}

void session_discard_births(struct session *session)
{
    struct birth birth;
    for (uint32_t i = 0; i < mailbox_used(&session->mailbox); i++)
        if (mailbox_take(&session->mailbox, i, &birth) && !birth.ended)
            engine_close(&birth.event);
}
