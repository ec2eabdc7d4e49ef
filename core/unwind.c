/* What the unwinders share. Runs in the helper; never touches the app's live stack. */
#include "unwind.h"

#include "arch.h"

void unwinder_init(struct unwinder *unwinder, const struct unwind_library *library,
                   struct modules *modules, struct app_memory *memory)
{
    *unwinder = (struct unwinder){.library = library, .modules = modules, .memory = memory};
}

bool unwind_read_stack(struct unwinder *unwinder, uint64_t address, void *buffer, size_t bytes)
{
    const struct unwind_sample *sample = &unwinder->sample;
    uint64_t offset = address - sample->registers[ARCH_PERF_INDEX_SP];
    if (offset > sample->stack_bytes || bytes > sample->stack_bytes - offset) {
        unwinder->beyond_copy = true;
        return false;
    }
    __builtin_memcpy(buffer, sample->stack + offset, bytes);
    return true;
}

size_t unwind_stack(struct unwinder *unwinder, const struct unwind_sample *sample, uint64_t *ips,
                    enum unwind_end *end)
{
    unwinder->sample = *sample;
    unwinder->beyond_copy = false;
    unwinder->unknown_ip = 0;
    if (unwinder->library->address_space != NULL)
        return unwind_by_libunwind(unwinder, ips, end);
    return unwind_by_frame_pointer(unwinder, ips, end);
}
