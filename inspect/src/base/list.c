#include "base/list.h"

#include <stdint.h>
#include <stdlib.h>

bool ssi_grow(void **items, size_t count, size_t *capacity, size_t size)
{
    size_t wanted = *capacity ? *capacity * 2 : 16;
    void *larger;

    if (count < *capacity)
        return true;
    if (wanted > SIZE_MAX / size)
        return false;
    larger = realloc(*items, wanted * size);
    if (!larger)
        return false;
    *items = larger;
    *capacity = wanted;
    return true;
}
