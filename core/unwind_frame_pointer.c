/*
 * Walks the chain of saved frame pointers. Runs in the helper, where libunwind is missing.
 *
 * A frame that keeps no frame pointer hides its caller here, and the walk can't know the root from
 * the end of what it knows, so no stack counts as whole.
 */
#include "unwind.h"

#include "arch.h"

size_t unwind_by_frame_pointer(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end)
{
    const uint64_t *registers = unwinder->sample.registers;
    uint64_t frame = registers[ARCH_PERF_INDEX_FP];
    uint64_t below = registers[ARCH_PERF_INDEX_SP];
    size_t count = 0;
    ips[count++] = registers[ARCH_PERF_INDEX_IP];
    *end = UNWIND_NO_RULE;
    while (count < UNWIND_FRAMES_MAX) {
        uint64_t saved[2]; /* the caller's frame pointer, the return address */
        /* Frames lie one above the other; anything else is not a frame pointer. */
        if (frame < below || frame % 8 != 0 ||
            !unwind_read_stack(unwinder, frame, saved, sizeof saved))
            break;
        if (modules_find(unwinder->modules, saved[1] - 1) == NULL)
            return count;
        ips[count++] = saved[1] - 1;
        below = frame + sizeof saved;
        frame = saved[0];
    }
    if (unwinder->beyond_copy && frame != 0)
        *end = UNWIND_CUT;
    return count;
}
