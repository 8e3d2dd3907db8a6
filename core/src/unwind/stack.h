/* Where stacks begin and end. */
#ifndef SS_STACK_H
#define SS_STACK_H

#include "unwind/unwind.h"

/*
 * The stack that SP lies in: one that the host made known, this thread's own, or its alternate
 * signal stack while that is in use.  False when it is none of these.
 */
bool ss_stack_find(uintptr_t sp, ss_stack *stack);

#endif
