/* Lists that grow.  A list that cannot grow keeps what it has. */
#ifndef SSI_LIST_H
#define SSI_LIST_H

#include <stdbool.h>
#include <stddef.h>

/* Room for one more element of SIZE bytes in the list of COUNT that the pointer at ITEMS points to,
 *with CAPACITY; false without memory. */
bool ssi_grow(void *items, size_t count, size_t *capacity, size_t size);

#endif
