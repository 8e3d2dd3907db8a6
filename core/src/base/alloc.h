/*
 * The one allocator: all heap memory of the core comes from here.  Hosts can supply it, and
 * tests can count and fail it.
 */
#ifndef SS_ALLOC_H
#define SS_ALLOC_H

#include "base/platform.h"

/* Returns zeroed memory; NULL when out of memory or when COUNT * SIZE overflows. */
void *ss_alloc(size_t count, size_t size);

/* As realloc, for its blocks; the new part is not cleared.  On NULL the old block stays. */
void *ss_realloc(void *block, size_t count, size_t size);

/* Not cleared: for large buffers that are mostly unused. */
void *ss_alloc_dirty(size_t bytes);

/* NULL is allowed. */
void ss_free(void *block);

#endif
