/*
 * A call on another stack, for what needs more of it than a caller may have left.
 */
#ifndef SS_STACK_CALL_H
#define SS_STACK_CALL_H

#include "base/platform.h"

/*
 * Call F with DATA on the stack that ends at TOP (aligned to 16 bytes), and come back.  F must
 * return.  False, and nothing was called: nobody described this machine yet.
 *
 * Unwinders pass the place, but those that hold frames to the bounds of one stack end there.
 * Signal safe.
 */
bool ss_stack_call(void *top, void (*f)(void *), void *data);

#endif
