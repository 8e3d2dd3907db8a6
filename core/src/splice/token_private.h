/* Parts of the tokens that only capture, the errors and tests use. */
#ifndef SS_TOKEN_PRIVATE_H
#define SS_TOKEN_PRIVATE_H

#include "splice/token.h"

#include "unwind/unwind.h"

/*
 * The core's own gaps, which exist from the start: those needed when no memory is left, and those
 * that a capture in a signal handler may need first.
 */
#define SS_OWN_GAPS(X)                                                                       \
    X(NO_MEMORY, EXACT, "frames missing here: out of memory")                                \
    X(NO_WAIT, EXACT, "signal arrived while another frame was being recorded")               \
    X(REENTERED, EXACT, "signal handler interrupted another capture")                        \
    X(INFERRED, INFERRED,                                                                    \
      "no unwind data here: the following frames were found by frame pointers")              \
    X(DISAGREE, EXACT, "two languages claim the same native frames")                         \
    X(OUT_OF_ORDER, EXACT, "frames omitted: a frame source reported them out of order")      \
    X(TOO_DEEP, EXACT, "stack has more than 2048 native frames: out of memory for the rest") \
    X(DEEP_64K, EXACT, SS_DEEP_REASON("less than 64 KiB"))                                   \
    X(DEEP_1M, EXACT, SS_DEEP_REASON("less than 1 MiB"))                                     \
    X(DEEP_16M, EXACT, SS_DEEP_REASON("less than 16 MiB"))                                   \
    X(DEEP_256M, EXACT, SS_DEEP_REASON("less than 256 MiB"))                                 \
    X(DEEP_4G, EXACT, SS_DEEP_REASON("less than 4 GiB"))                                     \
    X(DEEPEST, EXACT, SS_DEEP_REASON("more than 4 GiB"))

#define SS_DEEP_REASON(left) "stack has more than 65536 native frames: the rest use " left

#define SS_TOKEN_ID(name, ...) SS_TOKEN_##name,
#define SS_TOKEN_END_ID(name, ...) SS_TOKEN_END_##name,

/* Their ids. */
enum { SS_OWN_GAPS(SS_TOKEN_ID) SS_UNWIND_REASONS(SS_TOKEN_END_ID) SS_TOKEN_FIXED_COUNT };

/* What they stand for, by id. */
extern const stacksplice_token_info ss_token_fixed[SS_TOKEN_FIXED_COUNT];

#define SS_TOKEN_DROPPED_REASON "name of this frame evicted: too many newer code locations"

/* Signal safe. */
uintptr_t ss_token_of(uint64_t id);

/*
 * Set WALK, or NULL, as the stack that sources read in this thread now.  If a signal interrupted
 * one of its frames, the thread must not wait to store a description.
 */
void ss_token_looks_at(const stacksplice_walk *walk);

/*
 * Register the owner of stored stacks.  Before a sweep, HOLDER is called and calls ss_token_hold
 * for their elements.  It may take a lock under which nothing requests a token.  Set at load.
 */
void ss_token_set_holder(void (*holder)(void));
void ss_token_hold(uintptr_t element);

#endif
