/*
 * Memory that is never given back, for tables whose readers take no lock.  It is no memory of the
 * heap: a capture in a signal handler may have interrupted the allocator.
 */
#ifndef SS_KEEP_H
#define SS_KEEP_H

#include "base/platform.h"

enum { SS_KEEP_MAX = 32 << 10 };

/* SIZE bytes, all zero, at most SS_KEEP_MAX; NULL without memory.  Signal safe. */
void *ss_keep(size_t size);

#endif
