/* Time that no thread's own clock shows. Runs in the helper. */
#include "thread_ends.h"

#include "text.h"

/* So many ends, and they are worth a line of the profile. */
#define ENDS_WORTH 100u

/* What an end takes at the most; it is more where an event has to be taken down. */
#define END_NS            8000u
#define END_WITH_EVENT_NS 80000u

static uint64_t *most_of(struct thread_ends *ends, const char *name)
{
    for (uint32_t i = 0; i < ends->used; i++)
        if (text_equal(ends->names[i].name, name))
            return &ends->names[i].most_ns;
    if (ends->used == THREAD_ENDS_NAMES)
        return &ends->names[THREAD_ENDS_NAMES - 1].most_ns;
    bool is_last = ends->used == THREAD_ENDS_NAMES - 1;
    struct text text = text_over(ends->names[ends->used].name, THREAD_NAME_BYTES);
    text_put(&text, is_last ? "[other threads]" : name);
    return &ends->names[ends->used++].most_ns;
}

void thread_ends_note(struct thread_ends *ends, const struct thread *thread)
{
    bool had_event = thread->event.mapping != NULL;
    *most_of(ends, thread->name) += had_event ? END_WITH_EVENT_NS : END_NS;
    ends->count++;
}

bool thread_ends_are_many(const struct thread_ends *ends)
{
    return ends->count >= ENDS_WORTH;
}

void thread_ends_book(struct thread_ends *ends, struct stack_builder *stacks, uint64_t missing_ns,
                      uint64_t least_ns)
{
    uint64_t most_ns = 0;
    for (uint32_t i = 0; i < ends->used; i++)
        most_ns += ends->names[i].most_ns;
    uint64_t ns = missing_ns < most_ns ? missing_ns : most_ns;
    if (!thread_ends_are_many(ends) || ns < least_ns)
        return;
    double part = (double)ns / (double)most_ns;
    for (uint32_t i = 0; i < ends->used; i++) {
        struct thread nobody = {.text = UINT32_MAX};
        __builtin_memcpy(nobody.name, ends->names[i].name, sizeof nobody.name);
        uint64_t its_ns = (uint64_t)(part * (double)ends->names[i].most_ns);
        if (its_ns != 0)
            stack_frames_book(stacks, &nobody, "[thread end]", its_ns);
        /* MISSING_NS may have been a careful guess; but what ends do not take is not to pile up. */
        ends->names[i].most_ns = (ends->names[i].most_ns - its_ns) / 2;
    }
}
