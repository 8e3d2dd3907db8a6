/* Calls a function on another stack, when it needs more than the caller may have left. */
#ifndef SS_STACK_CALL_H
#define SS_STACK_CALL_H

#include "base/platform.h"

/*
 * Call F with DATA on the stack that ends at TOP (aligned to 16 bytes), and return to this one.  F
 * must return.  False, without a call, on processors that have no implementation yet.
 *
 * Unwinders can pass this switch, except those that bound frames to one stack.  Signal safe.
 */
bool ss_stack_call(void *top, void (*f)(void *), void *data);

#endif
