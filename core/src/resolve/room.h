/*
 * Room on the stack for libdw and demanglers, which take hundreds of kilobytes of it without
 * asking how much is there: threads can have 16 KB, and deep recursions have little left.
 */
#ifndef SS_ROOM_H
#define SS_ROOM_H

#include "base/platform.h"

/*
 * Call F with DATA: here where the stack has room, else on a mapped one.  False, and F was not
 * called: there is neither.
 *
 * On a mapped stack no signal is handled in F but those that the processor raises, since handlers
 * of the host could not see its frames.  F calls nothing of the host, whose allocator may look at
 * the stack it is called on.
 */
bool ss_room_call(void (*f)(void *), void *data);

/*
 * Whether a report may go one group deeper here, where it calls back the host and so stays on its
 * stack: an error takes up to 6 KB of that.  True where nobody knows how much there is.
 */
bool ss_room_for_error(void);

#endif
