/* Rules by address, for all threads, without a lock. */
#ifndef SS_RULE_CACHE_H
#define SS_RULE_CACHE_H

#include "unwind/rule.h"

/*
 * The rule for PC that was put under GENERATION (ss_modules_generation); false when there is none.
 * Never a mixture of two rules.  Signal safe.
 */
bool ss_rule_cache_get(uintptr_t pc, uint64_t generation, ss_rule *rule);

/* Keep RULE; dropped when its place is being written by another thread.  Signal safe. */
void ss_rule_cache_put(uintptr_t pc, uint64_t generation, const ss_rule *rule);

#endif
