/* The helper's sleep before its work. Runs in the helper; takes nothing out of mailbox and rings.
 */
#include "nap.h"

#include "record.h"
#include "ring.h"
#include "sys.h"

#define NAP_NS_MAX      1000000u
#define NAP_NS_UNPOSTED 100000u /* until the first thread has posted its event */
#define NAP_PERIODS     2u      /* the ring of a birth has room for twice as many samples */

static bool is_over(const struct session *session)
{
    return __atomic_load_n(&session->finish_wanted, __ATOMIC_ACQUIRE) != SESSION_GOES_ON ||
           helper_app_is_gone(&session->helper);
}

/* How long all rings bear that nobody reads them. */
static uint64_t patience_ns(const struct mailbox *mailbox)
{
    uint64_t least_ns = NAP_NS_MAX;
    if (__atomic_load_n(&mailbox->unread, __ATOMIC_SEQ_CST) == 0)
        return NAP_NS_UNPOSTED;
    for (uint32_t i = 0; i < mailbox_used(mailbox); i++) {
        const struct birth *birth = mailbox_peek(mailbox, i);
        if (birth != NULL && birth->event.mapping != NULL &&
            birth->period_ns * NAP_PERIODS < least_ns)
            least_ns = birth->period_ns * NAP_PERIODS;
    }
    return least_ns;
}

/* Is there a sample, or anything that makes no sense, in the event's ring? */
static bool has_sample(const struct event *event, bool has_callchain)
{
    uint8_t bounce[RECORD_BYTES_MAX];
    struct ring ring = ring_over(event->mapping, event->mapping_bytes);
    struct record record;
    size_t bytes;
    const void *data;
    for (; (data = ring_peek(&ring, &bytes, bounce)) != NULL; ring.tail += bytes)
        if (record_decode(&record, data, bytes, has_callchain) != 0 ||
            record.kind == RECORD_SAMPLE || record.kind == RECORD_EXEC)
            return true;
    return false;
}

static bool has_samples(const struct session *session)
{
    const struct mailbox *mailbox = &session->mailbox;
    for (uint32_t i = 0; i < mailbox_used(mailbox); i++) {
        const struct birth *birth = mailbox_peek(mailbox, i);
        if (birth != NULL && birth->event.mapping != NULL &&
            has_sample(&birth->event, session->traits.kernel_frames))
            return true;
    }
    return false;
}

/* Does anybody want to hear of a process without samples? */
static bool is_awaited(const struct session *session)
{
    return session->config.summary || session->config.report_path[0] != '\0' ||
           __atomic_load_n(&session->labels.refused, __ATOMIC_RELAXED) != 0 ||
           __atomic_load_n(&session->labels.missed, __ATOMIC_RELAXED) != 0;
}

bool nap_until_asked(struct session *session)
{
    struct helper *helper = &session->helper;
    uint32_t wakes = helper_wakes(helper);
    uint64_t start_ns = sys_clock_ns(CLOCK_MONOTONIC), now_ns = start_ns, ns;
    while (!is_over(session) && helper_wakes(helper) == wakes &&
           now_ns - start_ns < (ns = patience_ns(&session->mailbox))) {
        helper_sleep(helper, wakes, ns - (now_ns - start_ns));
        now_ns = sys_clock_ns(CLOCK_MONOTONIC);
    }
    return is_over(session) && !is_awaited(session) && !has_samples(session);
}
