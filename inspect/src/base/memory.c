#include "base/base.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- How much is read -------------------------------------------------------------------------*/

/* Some seconds: a read takes some nanoseconds, and longer ones cost more. */
enum { ALL = 1 << 27, BYTES = 256 };

static size_t left = ALL;
static bool spent;

void ssi_budget_renew(void)
{
    left = ALL;
    spent = false;
}

bool ssi_budget_takes(size_t size)
{
    size_t cost = 1 + size / BYTES;

    if (cost > left) {
        spent = true;
        return false;
    }
    left -= cost;
    return true;
}

bool ssi_budget_is_spent(void)
{
    return spent;
}

/* ---- Lists ------------------------------------------------------------------------------------*/

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

bool ssi_append(void *items, size_t *count, size_t *capacity, const void *item, size_t size)
{
    char *all;

    if (!ssi_grow(items, *count, capacity, size))
        return false;
    memcpy(&all, items, sizeof all);
    memcpy(all + (*count)++ * size, item, size);
    return true;
}
