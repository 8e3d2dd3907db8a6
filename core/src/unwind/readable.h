/* Looking whether memory is there before it is read. */
#ifndef SS_READABLE_H
#define SS_READABLE_H

#include "base/platform.h"

/* Whether the eight bytes at ADDRESS can be read.  A system call; usable in a signal handler. */
bool ss_is_readable(uintptr_t address);

#endif
