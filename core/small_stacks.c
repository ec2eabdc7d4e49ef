/* Knows alternate stacks without room for a signal of ours. Runs in the app's threads. */
#include "small_stacks.h"

#include "sys.h"

bool small_stack_is(const struct small_stacks *stacks, const stack_t *stack)
{
    size_t frame_bytes = stacks->frame_bytes != 0 ? stacks->frame_bytes : SMALL_STACKS_FRAME_BYTES;
    return (stack->ss_flags & SS_DISABLE) == 0 &&
           stack->ss_size < frame_bytes + SMALL_STACKS_HANDLER_BYTES;
}

bool small_stack_is_own(const struct small_stacks *stacks)
{
    stack_t now;
    return sys2(SYS_sigaltstack, NULL, &now) == 0 && small_stack_is(stacks, &now);
}

/* Puts TO where FROM is. */
static bool replace(struct small_stacks *stacks, pid_t from, pid_t to)
{
    for (uint32_t i = 0; i < SMALL_STACKS_NOTED; i++) {
        pid_t found = from;
        if (__atomic_load_n(&stacks->noted[i], __ATOMIC_RELAXED) == from &&
            __atomic_compare_exchange_n(&stacks->noted[i], &found, to, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_RELAXED))
            return true;
    }
    return false;
}

void small_stacks_note(struct small_stacks *stacks, pid_t tid, bool has)
{
    if (!has)
        replace(stacks, tid, 0);
    else if (!replace(stacks, tid, tid) && !replace(stacks, 0, tid))
        __atomic_store_n(&stacks->beyond, 1, __ATOMIC_SEQ_CST);
}

bool small_stacks_may_have(const struct small_stacks *stacks, pid_t tid)
{
    for (uint32_t i = 0; i < SMALL_STACKS_NOTED; i++)
        if (__atomic_load_n(&stacks->noted[i], __ATOMIC_SEQ_CST) == tid)
            return true;
    return __atomic_load_n(&stacks->beyond, __ATOMIC_SEQ_CST) != 0;
}

void small_stacks_forget(struct small_stacks *stacks)
{
    for (uint32_t i = 0; i < SMALL_STACKS_NOTED; i++)
        if (stacks->noted[i] != 0)
            stacks->noted[i] = 0;
    if (stacks->beyond != 0)
        stacks->beyond = 0;
}
