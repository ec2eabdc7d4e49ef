/*
 * From a sample's registers and stack copy to its call stack.
 *
 * Stacks are walked by unwind rules (unwind_rules.c). Where a rule says too little, libunwind's
 * remote interface with accessors of our own does the whole stack (unwind_libunwind.c), if it is
 * installed; where nothing is known the next frame is guessed (unwind_guess.c). None of them
 * allocates, or looks up maps or names.
 *
 * Thread safety: unwind_library_* in the constructor's thread, the rest one task at a time.
 */
#ifndef SELFSAMPLE_CORE_UNWIND_H
#define SELFSAMPLE_CORE_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "app_memory.h"
#include "arch.h"
#include "deep_stack.h"
#include "modules.h"
#include "rule_cache.h"

#define UNWIND_FRAMES_MAX 65536u

/* How far above a stack pointer its stack is believed to reach. */
#define UNWIND_STACK_REACH_BYTES (64u * 1024 * 1024)

/* How a stack ended. */
enum unwind_end {
    UNWIND_ROOT,    /* at a frame that nobody called: it is whole */
    UNWIND_KNOWN,   /* at known_slot: never an end to others */
    UNWIND_CUT,     /* where the copy of the stack ended */
    UNWIND_NO_RULE, /* at a frame nothing is known about, or a damaged one */
};

/* libunwind, loaded by the preload through dlopen: it must not be among our NEEDED libraries. */
#define UNWIND_SYMBOLS 8u
struct unwind_library {
    void *symbols[UNWIND_SYMBOLS];
    void *address_space; /* NULL: there is no libunwind */
};

extern const char unwind_library_file[];
extern const char *const unwind_symbol_names[UNWIND_SYMBOLS];

/* Makes libunwind ready once all symbols are set. May call malloc: only for the app's own thread.
 * 0, or -ENOSYS where it can't be used. */
int unwind_library_prepare(struct unwind_library *library);

/* The state of one thread at its sample. */
struct unwind_sample {
    const uint64_t *registers; /* ARCH_PERF_REGISTER_COUNT of them */
    const uint8_t *stack;      /* copy of the memory at the stack pointer */
    size_t stack_bytes;
    pid_t tid;
    uint64_t time_ns;
    bool is_newest; /* of its thread's: what the living stack shows is most likely its own */
    struct deep_stack *deep; /* what is known of its thread's outer frames; NULL: nothing can be */
};

/* Code that leaves its function at IP, see unwind_guess.c. */
struct unwind_leaving {
    uint64_t ip; /* 0: none */
    struct arch_leave leave;
};

#define UNWIND_LEAVING_KEPT 64u

struct unwinder {
    const struct unwind_library *library;
    struct modules *modules;
    struct app_memory *memory;
    struct arena *arena;
    struct unwind_sample sample; /* that is being unwound */
    bool live;                   /* the stack beyond the copy may be read from the app */
    bool beyond_copy;            /* it asked for stack beyond the copy */
    uint64_t known_slot;         /* rules need not go beyond this return address; 0: none */
    size_t reach_bytes;          /* of the last stack's copy that its walk needed, at the most */
    uint64_t cut_slot;   /* where rules expected the one that the copy has not; 0: nowhere */
    uint64_t cut_sp;     /* the stack pointer in that frame */
    uint64_t slot_fp;    /* the frame pointer that the caller at known_slot had, as read last */
    uint64_t stack_from; /* the living stack is believed to lie above this */
    struct stack_window *window; /* what was last read of it */
    struct rule_cache rules;
    uint64_t guesses;                    /* frames found without unwind information, in all */
    uint64_t handed_over;                /* stacks that rules could not express, in all */
    bool watching_tried, watching_fails; /* deep_stack_is_possible was asked, and said no */
    bool watch_wanted;   /* a deep stack was cut that might be known if it were looked at soon */
    uint64_t missed;     /* frames that it was missing for and that were guessed instead */
    uint64_t unknown_ip; /* the last address that no table covers */
    struct module_span span;                            /* where its last read of a module was */
    struct unwind_memo *memo;                           /* what is known of return addresses */
    struct unwind_leaving leaving[UNWIND_LEAVING_KEPT]; /* what was seen of such, by address */
    bool library_is_tuned;  /* libunwind has its cache: at its first use */
    uint64_t seen_replaced; /* modules->replaced when libunwind's cache was last valid */
};

/* ARENA keeps the memo; without memory for it everything works, slower. */
void unwinder_init(struct unwinder *unwinder, const struct unwind_library *library,
                   struct modules *modules, struct app_memory *memory, struct arena *arena);

/* Is IP where a signal handler returns to? Then its caller was interrupted, not calling. */
bool unwind_is_signal_return(struct unwinder *unwinder, uint64_t ip);

/*
 * Unwinds SAMPLE, leaf first, into IPS (UNWIND_FRAMES_MAX): the first is the instruction itself, of
 * each caller it is an address inside the call instruction. Returns how many, at least 1; *END
 * tells how the stack ended.
 */
size_t unwind_stack(struct unwinder *unwinder, const struct unwind_sample *sample, uint64_t *ips,
                    enum unwind_end *end);

/* Is ADDRESS in code that no file holds? */
bool unwind_is_made_code(struct unwinder *unwinder, uint64_t address);

/* Is ADDRESS in known code, right behind a call? */
bool unwind_follows_call(struct unwinder *unwinder, uint64_t address);

/* Reads BYTES at ADDRESS of the sample's stack. False, noting that, where the copy has not all of
 * it. */
bool unwind_read_stack(struct unwinder *unwinder, uint64_t address, void *buffer, size_t bytes);

/* Makes libunwind forget the rules that it has kept. */
void unwind_library_forget(const struct unwind_library *library);

/* The two of them. That by rules returns 0 where it hands over, to libunwind, which is there then.
 */
size_t unwind_by_rules(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end);
size_t unwind_by_libunwind(struct unwinder *unwinder, uint64_t *ips, enum unwind_end *end);

/* What is known of a frame wherever it is. */
struct unwind_place {
    uint64_t ip, sp, fp;
    uint64_t link;  /* the return address that is in a register; 0: none, or not known */
    bool sp_is_low; /* sp is not the stack pointer, but somewhere below it in the same stack */
};

struct unwind_place unwind_place_of(const uint64_t *registers);

/* Moves PLACE to where its caller may be, and counts that. False: there is no guess. IS_LEAF: it is
 * the frame that was sampled, or that a signal interrupted. */
bool unwind_guess(struct unwinder *unwinder, bool is_leaf, struct unwind_place *place);

#endif
