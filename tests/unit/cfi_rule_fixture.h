/* What the tests of rules share, whatever the processor: one rule against all that is wanted of it.
 */
#ifndef SELFSAMPLE_TESTS_CFI_RULE_FIXTURE_H
#define SELFSAMPLE_TESTS_CFI_RULE_FIXTURE_H

#include "cfi_rule.h"
#include "check.h"

#define START 0x1000u /* of the function */

static inline void check_rule(const char *file, int line, struct cfi_rule rule,
                              enum cfi_rule_kind kind, unsigned base, int offset, int words,
                              enum cfi_rule_fp fp, int fp_words)
{
    if (rule.kind != kind || rule.base != base || rule.offset != offset || rule.words != words ||
        rule.fp != fp || rule.fp_words != fp_words)
        check_fail(file, line, "kind %u base %u offset %d words %d fp %u at %d", rule.kind,
                   rule.base, rule.offset, rule.words, rule.fp, rule.fp_words);
}

#define CHECK_RULE(...) check_rule(__FILE__, __LINE__, __VA_ARGS__)

#endif
