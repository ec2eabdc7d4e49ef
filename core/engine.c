/* Chooses the engine and says why. Runs in the app's threads and in the helper. */
#include "engine.h"

#include <errno.h>

int engine_choose(struct event_traits *traits, const struct config *config, struct timers *timers)
{
    int refusal = 0;
    if (config->engine != CONFIG_ENGINE_TIMER) {
        refusal = event_probe(traits, config->kernel != CONFIG_KERNEL_NO);
        timers->has_callchain = refusal == 0 && traits->kernel_frames;
        if (refusal == 0 || config->engine == CONFIG_ENGINE_PERF)
            return refusal;
    }
    timers->has_callchain = false;
    *traits = (struct event_traits){.by_timer = true, .perf_refusal = refusal};
    return timers_prepare(timers);
}

int engine_open_timer(struct event *event, struct timers *timers, pid_t tid, uint64_t period_ns,
                      uint64_t random)
{
    int error;
    struct timer_slot *slot = timers_open(timers, tid, period_ns, random, &error);
    *event = (struct event){.timer = slot, .fd = -1};
    if (slot == NULL)
        return error;
    event->id = timer_slot_life(slot);
    event->mapping = slot->mapping;
    event->mapping_bytes = slot->mapping_bytes;
    return 0;
}

int engine_enable(const struct event *event, struct timers *timers)
{
    return event->timer != NULL ? timer_slot_arm(timers, event->timer) : event_enable(event);
}

bool engine_was_spared(const struct event *event)
{
    return event->timer != NULL && timer_slot_was_spared(event->timer);
}

bool engine_is_alive(const struct event *event)
{
    return event->timer == NULL || timer_slot_is_alive(event->timer, (uint32_t)event->id);
}

void engine_close(struct event *event)
{
    if (event->timer == NULL) {
        event_close(event);
        return;
    }
    timer_slot_release(event->timer, (uint32_t)event->id);
    *event = (struct event){.fd = -1};
}

uint64_t engine_period_ns(const struct event_traits *traits, unsigned rate_hz)
{
    uint64_t period_ns = 1000000000u / rate_hz;
    uint64_t tick_ns = traits->by_timer ? timers_tick_ns() : 0;
    return period_ns > tick_ns ? period_ns : tick_ns;
}

unsigned engine_rate_limit_hz(void)
{
    uint64_t limit_hz = event_rate_limit_hz();
    return limit_hz == 0 || limit_hz > CONFIG_RATE_HZ_MAX ? CONFIG_RATE_HZ_MAX : (unsigned)limit_hz;
}

uint64_t engine_rate_hz(uint64_t period_ns)
{
    return (1000000000u + period_ns / 2) / period_ns;
}

static void put_remedy(struct text *text, int refusal, int64_t paranoid)
{
    if (refusal != -EACCES && refusal != -EPERM)
        return;
    if (paranoid > 2)
        text_put(text, "; `sysctl kernel.perf_event_paranoid=2` would allow it");
    else
        text_put(text, "; a container has to allow perf_event_open");
}

void engine_describe(struct text *text, const struct event_traits *traits, int64_t paranoid)
{
    text_put(text, traits->by_timer ? "timer" : "perf");
    if (traits->perf_refusal == 0)
        return;
    text_put(text, " (perf refused: ");
    text_put_error(text, -traits->perf_refusal);
    put_remedy(text, traits->perf_refusal, paranoid);
    text_put_char(text, ')');
}
