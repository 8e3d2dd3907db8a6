#include "base/list.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

bool ssi_grow(void *items, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *now, *larger;

    if (count < *capacity)
        return true;
    if (wanted > SIZE_MAX / size)
        return false;
    memcpy(&now, items, sizeof now); /* the pointer is of any type */
    larger = realloc(now, wanted * size);
    if (!larger)
        return false;
    memcpy(items, &larger, sizeof larger);
    *capacity = wanted;
    return true;
}
