/* Rules by address, shared by all threads, without a lock. */
#ifndef SS_RULE_CACHE_H
#define SS_RULE_CACHE_H

#include "unwind/rule.h"

/*
 * The rule stored for PC under GENERATION (ss_modules_generation); false when there is none.  Never
 * mixes two rules.  Signal safe.
 */
bool ss_rule_cache_get(uintptr_t pc, uint64_t generation, ss_rule *rule);

/* Store RULE, unless another thread is writing to its entry.  Signal safe. */
void ss_rule_cache_put(uintptr_t pc, uint64_t generation, const ss_rule *rule);

#endif
