/* Code of this processor for the tests, as core/arch.h has it for core. */
#ifndef SELFSAMPLE_TESTS_ARCH_FIXTURE_H
#define SELFSAMPLE_TESTS_ARCH_FIXTURE_H

#include <stdint.h>

#include "arch.h"

/* Code that is about to leave its function, see arch_leaves_by. */
struct leave_case {
    uint8_t code[12];
    unsigned at, skip_words, pops_fp; /* the place in the code, and what lies on the stack */
};

#if defined(__x86_64__)
#include "arch_fixture_x86_64.h"
#else
#include "arch_fixture_aarch64.h"
#endif

#endif
