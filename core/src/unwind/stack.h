/* Finds where stacks start and end. */
#ifndef SS_UNWIND_STACK_H
#define SS_UNWIND_STACK_H

#include "unwind/unwind.h"

#include <stdatomic.h>

/*
 * Find the stack that SP lies in: one that the host added, this thread's own, or its alternate
 * signal stack while in use.  False when it is none of these.
 */
bool ss_stack_find(uintptr_t sp, ss_range *stack);

/* Whether the host added the stack that SP lies in. */
bool ss_stack_is_added(uintptr_t sp);

/*
 * The stack that SP, at which a signal interrupted it, lies in, where nobody knows its bounds: what
 * can be read from SP on, up to a limit.  False when nothing can.
 */
bool ss_stack_find_readable(uintptr_t sp, ss_range *stack);

/* One thread's last answer and the stack pointers that it covers; all zero: none. */
typedef struct ss_stack_cache {
    uintptr_t low, high;
    ss_range stack;
    uint32_t version;
} ss_stack_cache;

/* Changes when cached answers may be wrong. */
extern _Atomic uint32_t ss_stack_version;

bool ss_stack_find_anew(ss_stack_cache *cache, uintptr_t sp, ss_range *stack);

/* ss_stack_find, through CACHE. */
static inline bool ss_stack_find_cached(ss_stack_cache *cache, uintptr_t sp, ss_range *stack)
{
    if (SS_UNLIKELY(sp < cache->low || sp >= cache->high ||
                    atomic_load_explicit(&ss_stack_version, memory_order_acquire) !=
                        cache->version))
        return ss_stack_find_anew(cache, sp, stack);
    *stack = cache->stack;
    return true;
}

/* ---- own_stack.c: no lock, nothing of malloc --------------------------------------------------*/

/* This thread's own stack, if SP lies in it. */
bool ss_own_stack_find(uintptr_t sp, ss_range *stack);

/* For tests: whether we read the C library's own record of it; OFF disables that for good. */
bool ss_own_stack_described(bool off);

/*
 * This thread's own stack if SP, at which a signal interrupted it, is slightly below.  Then the
 * stack has overflowed, and the frame that did not fit was not complete yet.
 */
bool ss_stack_find_overflown(uintptr_t sp, ss_range *stack);

/* The smallest unit of memory protection. */
enum { SS_READABLE_STEP = 4096 };

/* Whether the eight bytes at ADDRESS can be read.  One system call; signal safe. */
bool ss_is_readable(uintptr_t address);

#endif
