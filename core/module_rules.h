/*
 * From a place in the code to its unwind rule: finds the module, in it the FDE, and reads that.
 *
 * Unwind tables are read from the module's file, which a later mapping at its addresses does not
 * change, or from the table that was made up for it.
 *
 * Thread safety: one task at a time; the helper.
 */
#ifndef SELFSAMPLE_CORE_MODULE_RULES_H
#define SELFSAMPLE_CORE_MODULE_RULES_H

#include <stdbool.h>
#include <stdint.h>

#include "cfi_rule.h"
#include "modules.h"

/*
 * The rule of the frame at IP; IS_RETURN: IP is where it is returned to, behind a call. False:
 * there is no code at IP (yet), which is not to be remembered. True with CFI_RULE_NONE: there is
 * code without unwind information.
 */
bool module_rule_find(struct modules *modules, uint64_t ip, bool is_return, struct cfi_rule *rule);

/* The same with `fp` telling of another register, ARCH_PERF_INDEX_*. */
bool module_rule_find_with(struct modules *modules, uint64_t ip, bool is_return,
                           unsigned perf_index, struct cfi_rule *rule);

/* Is IP where a signal handler returns to? Known by its code, as its unwind information may be
 * missing, or not reach to the instruction before it. */
bool module_is_signal_return(struct modules *modules, uint64_t ip);

/* Is IP in the entry code of its module, which nobody calls? That of the dynamic loader (and of
 * some libcs' programs) has no unwind information that would say so. */
bool module_is_entry_code(struct modules *modules, uint64_t ip);

#endif
