/* Captures of stacks that recur: by plans (plan/plan.h) instead of in full. */
#ifndef SS_REPEAT_H
#define SS_REPEAT_H

#include "splice/scratch.h"
#include "splice/sink.h"

/* What is known of a capture before it is known whether its stack recurs. */
typedef struct ss_repeat {
    ss_plan_case here;
    ss_plan_world world;
} ss_repeat;

/* For tests, set in the environment: each repeated capture is compared with a full one. */
extern bool ss_repeat_verifies;

/* Whether to look for a plan, and to record one.  In tests always, whatever it costs. */
static inline bool ss_repeat_looks(ss_scratch *scratch, ss_plan_kind kind)
{
    if (SS_UNLIKELY(ss_repeat_verifies))
        scratch->plans.payoff[kind] = (ss_plan_payoff){0};
    return ss_plans_look(&scratch->plans, kind);
}

/*
 * Begin a combined capture from ENTRY, which ss_plan_enter gave, that hides what is further in than
 * ABOVE.
 */
void ss_repeat_begin(ss_repeat *repeat, uintptr_t entry, const void *above);

/* Begin a capture of at most LIMIT native addresses; the frame record ABOVE is that of a caller. */
void ss_repeat_begin_native(ss_repeat *repeat, const void *above, uint64_t limit);

/* Put the whole stack into SINK, if a plan of SCRATCH fits; else a full capture has to. */
bool ss_repeat_put(ss_scratch *scratch, ss_repeat *repeat, ss_sink *sink);

/*
 * Begin to record the capture whose native frames were just walked, with the reports of all
 * sources, if that pays; else NULL.
 */
ss_recording *ss_repeat_record(ss_scratch *scratch, ss_repeat *repeat);

/* The same where the native frames are all there is: whether COUNT addresses are due, and after a
   walk of them. */
bool ss_repeat_is_due(ss_scratch *scratch, const ss_repeat *repeat, const uintptr_t *addresses,
                      uint32_t count);
void ss_repeat_record_native(ss_scratch *scratch, ss_repeat *repeat);

/* Whether COUNT elements can be repeated: no gap among them reports a passing state of the core. */
bool ss_repeat_is_lasting(const uintptr_t *elements, uint32_t count);

/* End the process unless both have the same elements. */
void ss_repeat_verify(const ss_sink *repeated, const ss_sink *full);

#endif
