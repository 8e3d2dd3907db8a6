/* Checks that memory is mapped before it is read. */
#ifndef SS_READABLE_H
#define SS_READABLE_H

#include "base/platform.h"

/* The smallest unit of memory protection. */
enum { SS_READABLE_STEP = 4096 };

/* Whether the eight bytes at ADDRESS can be read.  One system call; signal safe. */
bool ss_is_readable(uintptr_t address);

#endif
