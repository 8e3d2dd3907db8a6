/* Checks that memory is mapped before it is read. */
#ifndef SS_READABLE_H
#define SS_READABLE_H

#include "base/platform.h"

/* Whether the eight bytes at ADDRESS can be read.  One system call; signal safe. */
bool ss_is_readable(uintptr_t address);

#endif
