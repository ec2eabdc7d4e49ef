/* small_stacks: what is too small, and which threads have it. */
#include "small_stacks.h"

#include <stddef.h>

#include "check.h"

static struct small_stacks stacks;

TEST(a_stack_is_small_without_room_for_frame_and_handler)
{
    stack_t stack = {.ss_size = 4096};
    stacks.frame_bytes = 4096 - SMALL_STACKS_HANDLER_BYTES;
    CHECK(!small_stack_is(&stacks, &stack));
    stack.ss_size--;
    CHECK(small_stack_is(&stacks, &stack));
    stack.ss_flags = SS_DISABLE;
    CHECK(!small_stack_is(&stacks, &stack));
}

/* SIGSTKSZ, as it was for decades, is what most programs have. */
TEST(what_the_kernel_does_not_tell_is_less_than_the_usual_stack)
{
    stack_t stack = {.ss_size = 8192};
    stacks.frame_bytes = 0;
    CHECK(!small_stack_is(&stacks, &stack));
    stack.ss_size = 4096;
    CHECK(small_stack_is(&stacks, &stack));
}

TEST(the_kernel_tells_of_the_own_one)
{
    static char memory[65536];
    const stack_t stack = {.ss_sp = memory, .ss_size = sizeof memory};
    const stack_t none = {.ss_flags = SS_DISABLE};
    stack_t before; /* a sanitizer's */
    REQUIRE(sigaltstack(&none, &before) == 0);
    stacks.frame_bytes = sizeof memory;
    CHECK(!small_stack_is_own(&stacks));
    REQUIRE(sigaltstack(&stack, NULL) == 0);
    CHECK(small_stack_is_own(&stacks));
    stacks.frame_bytes = 1024;
    CHECK(!small_stack_is_own(&stacks));
    REQUIRE(sigaltstack(&before, NULL) == 0);
}

TEST(threads_are_noted_and_beyond_them_all_may_be_such)
{
    for (pid_t tid = 1; tid <= (pid_t)SMALL_STACKS_NOTED; tid++)
        small_stacks_note(&stacks, tid, true);
    small_stacks_note(&stacks, 7, true); /* again */
    CHECK(small_stacks_may_have(&stacks, 7) && !small_stacks_may_have(&stacks, 5000));
    small_stacks_note(&stacks, 7, false);
    small_stacks_note(&stacks, 5000, false);
    CHECK(!small_stacks_may_have(&stacks, 7) && !small_stacks_may_have(&stacks, 5000));
    small_stacks_note(&stacks, 5000, true);
    CHECK(small_stacks_may_have(&stacks, 5000) && !small_stacks_may_have(&stacks, 7));
    small_stacks_note(&stacks, 5001, true);
    CHECK(small_stacks_may_have(&stacks, 7));
    small_stacks_forget(&stacks);
    CHECK(!small_stacks_may_have(&stacks, 7) && !small_stacks_may_have(&stacks, 5000));
}
