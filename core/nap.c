/* The helper's sleep before its work. Runs in the helper; takes nothing out of mailbox and rings.
 */
#include "nap.h"

#include "engine.h"
#include "kernel_time.h"
#include "record.h"
#include "ring.h"
#include "sys.h"

#define NAP_NS_MAX     1000000u /* then it looks at the rings again */
#define NAP_NS_SHORT   100000u  /* the same until the first thread has posted its event, or execs */
#define NAP_NS_LONGEST 4000000u

static bool is_over(const struct session *session)
{
    return __atomic_load_n(&session->finish_wanted, __ATOMIC_ACQUIRE) != SESSION_GOES_ON ||
           helper_app_is_gone(&session->helper);
}

/* What slot INDEX has posted, if it has a ring that can be read: a session may have ended during a
 * birth that told of it later, and have unmapped that. NULL: none. */
static const struct birth *birth_with_ring(const struct mailbox *mailbox, uint32_t index)
{
    const struct birth *birth = mailbox_peek(mailbox, index);
    bool has_ring = birth != NULL && birth->event.mapping != NULL && engine_is_alive(&birth->event);
    return has_ring ? birth : NULL;
}

static uint64_t ring_patience_ns(const struct birth *birth)
{
    struct event_shape shape = {.stack_bytes = birth->stack_bytes};
    uint64_t records = ring_mapped_bytes(birth->event.mapping_bytes) / event_record_bytes(&shape);
    return birth->period_ns * records / 2;
}

/* How long all rings bear that nobody reads them: half of the time that fills them. Whoever execs
 * is waited for in the next program. */
static uint64_t patience_ns(const struct session *session)
{
    const struct mailbox *mailbox = &session->mailbox;
    uint64_t least_ns = NAP_NS_MAX, ns;
    if (__atomic_load_n(&mailbox->unread, __ATOMIC_SEQ_CST) == 0 || session_exec_is_near(session))
        return NAP_NS_SHORT;
    for (uint32_t i = 0; i < mailbox_used(mailbox); i++) {
        const struct birth *birth = birth_with_ring(mailbox, i);
        if (birth != NULL && (ns = ring_patience_ns(birth)) < least_ns)
            least_ns = ns;
    }
    return least_ns;
}

enum found { FOUND_NOTHING, FOUND_EXEC, FOUND_SAMPLE };

/* What comes first in the event's ring: what makes no sense counts as a sample. */
static enum found ring_look(const struct event *event, bool has_callchain)
{
    uint8_t bounce[RECORD_BYTES_MAX];
    struct ring ring = ring_over(event->mapping, event->mapping_bytes);
    struct record record;
    size_t bytes;
    const void *data;
    for (; (data = ring_peek(&ring, &bytes, bounce)) != NULL; ring.tail += bytes) {
        if (record_decode(&record, data, bytes, has_callchain) != 0 || record.kind == RECORD_SAMPLE)
            return FOUND_SAMPLE;
        if (record.kind == RECORD_EXEC)
            return FOUND_EXEC;
    }
    return FOUND_NOTHING;
}

/* In all rings: a sample, or else an exec. */
static enum found rings_look(const struct session *session)
{
    const struct mailbox *mailbox = &session->mailbox;
    enum found found = FOUND_NOTHING;
    for (uint32_t i = 0; i < mailbox_used(mailbox) && found != FOUND_SAMPLE; i++) {
        const struct birth *birth = birth_with_ring(mailbox, i);
        if (birth == NULL)
            continue;
        enum found here = ring_look(&birth->event, session->traits.kernel_frames);
        found = here > found ? here : found;
    }
    return found;
}

/* Does anybody want to hear of a process without samples? */
static bool is_awaited(const struct session *session)
{
    return session->config.summary || session->config.report_path[0] != '\0' ||
           __atomic_load_n(&session->labels.refused, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&session->labels.missed, __ATOMIC_RELAXED) != 0;
}

/* Where it will be needed: of a process that has one thread so far, which therefore is its first
 * and has used what the process has. */
static void first_clock_begin(struct session *session)
{
    struct first_clock *clock = &session->first_clock;
    clock->tid = 0;
    if (!kernel_time_is_unseen(&session->traits) || session->had_threads)
        return;
    first_clock_open(clock, session->app_pid);
    first_clock_set(clock, session_app_cpu_ns(session));
    if (__atomic_load_n(&session->births, __ATOMIC_RELAXED) > 1)
        first_clock_close(clock);
}

/* Where time in the kernel makes no samples, a process without any may have spent a period there:
 * less is too short for a file. */
static bool has_unseen_time(const struct session *session)
{
    uint64_t cpu_ns = session_app_cpu_ns(session);
    if (cpu_ns == 0)
        cpu_ns = first_clock_process_ns(&session->first_clock);
    return kernel_time_is_unseen(&session->traits) &&
           cpu_ns >= session->cpu_at_start_ns + session->period_ns;
}

/* Sleeps until something is asked for, or for as long as the rings bear. */
static void doze(struct session *session, uint32_t wakes)
{
    struct helper *helper = &session->helper;
    uint64_t start_ns = sys_clock_ns(CLOCK_MONOTONIC), now_ns = start_ns, ns;
    while (!is_over(session) && helper_wakes(helper) == wakes &&
           now_ns - start_ns < (ns = patience_ns(session))) {
        helper_sleep(helper, wakes, ns - (now_ns - start_ns));
        now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    }
}

bool nap_until_asked(struct session *session)
{
    uint32_t wakes = helper_wakes(&session->helper);
    uint64_t end_ns = sys_clock_ns(CLOCK_MONOTONIC) + NAP_NS_LONGEST;
    enum found found;
    bool over;
    first_clock_begin(session);
    do {
        doze(session, wakes);
        over = is_over(session); /* before the look: what came until then is in the rings */
        found = rings_look(session);
    } while (!over && found == FOUND_NOTHING && helper_wakes(&session->helper) == wakes &&
             sys_clock_ns(CLOCK_MONOTONIC) < end_ns);
    return (over || found == FOUND_EXEC) && found != FOUND_SAMPLE && !is_awaited(session) &&
           !has_unseen_time(session);
}
