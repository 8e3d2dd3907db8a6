/*
 * Provides stack for libdw and demanglers, which use hundreds of kilobytes without checking.
 * Threads can have 16 KB, and deep recursions have little left.
 */
#ifndef SS_LARGE_STACK_H
#define SS_LARGE_STACK_H

#include "base/platform.h"

/*
 * Call F with DATA: here if the stack has room, else on a mapped one.  False when neither is
 * possible; F was not called.
 *
 * On a mapped stack, F runs with all signals blocked except processor-raised ones, since handlers
 * of the host could not see its frames.  F must not call the host, whose allocator may inspect the
 * stack it runs on.
 */
bool ss_large_stack_call(void (*f)(void *), void *data);

/*
 * Whether a report may descend one more group here.  It calls back into the host, so it stays on
 * this stack and takes up to 6 KB per error.  True when the room is unknown.
 */
bool ss_stack_suffices_for_error(void);

#endif
