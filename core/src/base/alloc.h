/*
 * The one allocator seam: every byte the core takes from the heap goes through here, so that hosts
 * can supply it and tests can count and fail it.
 */
#ifndef SS_ALLOC_H
#define SS_ALLOC_H

#include "base/platform.h"

/* Zeroed; NULL when out of memory, and for a product COUNT * SIZE that overflows. */
void *ss_alloc(size_t count, size_t size);

/* As realloc, for blocks of the seam; the new part is not cleared.  NULL keeps the old block. */
void *ss_realloc(void *block, size_t count, size_t size);

/* Not cleared: for large buffers of which little is touched. */
void *ss_alloc_dirty(size_t bytes);

/* NULL is allowed. */
void ss_free(void *block);

#endif
