/*
 * Guesses at callers where there is no unwind information. Runs in the helper. A guess must lie
 * above the stack pointer and lead right behind a call in known code, or along a chain of frame
 * pointers from code made at run time into such code; it can't tell the root.
 */
#include "unwind.h"

#include "arch.h"

/*
 * At the leaf: hand-written stubs, such as the few instructions around the system call of libc's
 * clone, have no unwind information where it would be wrong for the new thread, and no frame
 * either: the return address is where the call put it. If that is a register, code made at run
 * time, which has frames, may hold the address of an earlier call of its own there.
 */
static bool guess_frameless(struct unwinder *unwinder, struct unwind_place *place)
{
    uint64_t return_address = place->link;
    if (ARCH_CALL_PUSH_BYTES == 0 && unwind_is_made_code(unwinder, place->ip))
        return false;
    if ((ARCH_CALL_PUSH_BYTES != 0 &&
         !unwind_read_stack(unwinder, place->sp, &return_address, sizeof return_address)) ||
        !unwind_follows_call(unwinder, return_address))
        return false;
    *place = (struct unwind_place){
        .ip = return_address, .sp = place->sp + ARCH_CALL_PUSH_BYTES, .fp = place->fp};
    return true;
}

/* How the code at IP leaves its function, if it does no more than that. Made code may be gone by
 * now (python unmaps its own before it ends): then as it was seen before. */
static bool leave_find(struct unwinder *unwinder, uint64_t ip, struct arch_leave *leave)
{
    uint8_t code[ARCH_LEAVE_BYTES];
    struct unwind_leaving *kept = &unwinder->leaving[(ip ^ ip >> 6) % UNWIND_LEAVING_KEPT];
    if (app_memory_read_since(unwinder->memory, unwinder->sample.time_ns,
                              ip - ARCH_LEAVE_BEFORE_BYTES, code, sizeof code) != 0) {
        *leave = kept->leave;
        return kept->ip == ip;
    }
    bool leaves = arch_leaves_by(code, leave);
    if (leaves)
        *kept = (struct unwind_leaving){ip, *leave};
    else if (kept->ip == ip)
        kept->ip = 0;
    return leaves;
}

/* Anywhere in such code: it is about to leave its function, as the stubs do that call into C and
 * have no frame pointer. */
static bool guess_leaving(struct unwinder *unwinder, struct unwind_place *place)
{
    struct arch_leave leave;
    uint64_t saved[2] = {place->fp, 0}; /* the caller's frame pointer, the return address */
    if (!unwind_is_made_code(unwinder, place->ip) || !leave_find(unwinder, place->ip, &leave))
        return false;
    uint64_t at = place->sp + leave.skip_bytes;
    bool read = leave.pops_fp ? unwind_read_stack(unwinder, at, saved, sizeof saved)
                              : unwind_read_stack(unwinder, at, &saved[1], sizeof saved[1]);
    saved[1] = arch_return_address(saved[1]);
    if (!read ||
        (!unwind_follows_call(unwinder, saved[1]) && !unwind_is_made_code(unwinder, saved[1])))
        return false;
    *place =
        (struct unwind_place){.ip = saved[1], .sp = place->sp + leave.left_bytes, .fp = saved[0]};
    return true;
}

/* Anywhere: code made at run time keeps a frame pointer as a rule. Interpreters made at run time
 * push return addresses and jump, so there is no call to be found before these. */
static bool guess_frame_pointer(struct unwinder *unwinder, struct unwind_place *place)
{
    uint64_t saved[2]; /* the caller's frame pointer, the return address */
    if (place->fp < place->sp || place->fp % sizeof *saved != 0 ||
        !unwind_read_stack(unwinder, place->fp, saved, sizeof saved))
        return false;
    saved[1] = arch_return_address(saved[1]);
    bool outwards = saved[0] > place->fp && saved[0] - place->fp < UNWIND_STACK_REACH_BYTES;
    if (!unwind_follows_call(unwinder, saved[1]) &&
        !(outwards && unwind_is_made_code(unwinder, place->ip) &&
          unwind_is_made_code(unwinder, saved[1])))
        return false;
    *place = (struct unwind_place){.ip = saved[1],
                                   .sp = place->fp + sizeof saved,
                                   .fp = saved[0],
                                   .sp_is_low = !ARCH_FRAME_ENDS_AT_RECORD};
    return true;
}

bool unwind_guess(struct unwinder *unwinder, bool is_leaf, struct unwind_place *place)
{
    if (!guess_leaving(unwinder, place) && !(is_leaf && guess_frameless(unwinder, place)) &&
        !guess_frame_pointer(unwinder, place))
        return false;
    unwinder->guesses++;
    return true;
}
