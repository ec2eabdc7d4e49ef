/* Follows the median of how late interrupts are. Runs in the helper. */
#include "lateness.h"

/* With shorter ones, as with samples half a period late, nobody knows which point it was. */
#define PERIOD_TELLING_NS 100000u

/* Large steps at first, so that few samples bring it near. */
#define STEP_FIRST_NS 6000u
#define STEP_NS       500u
#define STEPS_FIRST   12u

void lateness_note(struct lateness *lateness, uint64_t period_ns, uint64_t count_ns)
{
    if (period_ns < PERIOD_TELLING_NS)
        return;
    uint64_t late_ns = count_ns % period_ns;
    if (late_ns >= period_ns / 2)
        return;
    uint64_t step_ns = lateness->noted++ < STEPS_FIRST ? STEP_FIRST_NS : STEP_NS;
    if (late_ns > lateness->ns)
        lateness->ns += late_ns - lateness->ns < step_ns ? late_ns - lateness->ns : step_ns;
    else
        lateness->ns -= lateness->ns - late_ns < step_ns ? lateness->ns - late_ns : step_ns;
}
