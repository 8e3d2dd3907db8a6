#include "failing_allocator.h"

#include <stacksplice/stacksplice.h>

#include <stdbool.h>
#include <stdlib.h>

atomic_long memory_live;
atomic_long memory_asked;
atomic_long memory_attempted;
atomic_int memory_failed;
atomic_int memory_all_after;
void (*_Atomic memory_before_next)(void);

static atomic_long countdown; /* allocations until one fails; 0: none does */

static bool fails(size_t bytes)
{
    long left = atomic_load(&countdown);

    atomic_fetch_add(&memory_asked, (long)bytes);
    atomic_fetch_add(&memory_attempted, 1);
    if (left == 0)
        return false;
    if (left > 1) {
        atomic_store(&countdown, left - 1);
        return false;
    }
    if (!atomic_load(&memory_all_after))
        atomic_store(&countdown, 0);
    atomic_store(&memory_failed, 1);
    return true;
}

static void *counted_alloc(size_t bytes, void *data)
{
    void (*before)(void) = atomic_exchange(&memory_before_next, NULL);
    void *block;

    if (before)
        before();
    block = fails(bytes) ? NULL : malloc(bytes ? bytes : 1);
    if (block)
        atomic_fetch_add(&memory_live, 1);
    return block;
}

static void *counted_realloc(void *block, size_t bytes, void *data)
{
    if (!block)
        return counted_alloc(bytes, data);
    return fails(bytes) ? NULL : realloc(block, bytes ? bytes : 1);
}

static void counted_free(void *block, void *data)
{
    if (block)
        atomic_fetch_sub(&memory_live, 1);
    free(block);
}

int memory_use(void)
{
    static const stacksplice_allocator allocator = {sizeof allocator, counted_alloc,
                                                    counted_realloc, counted_free, NULL};

    return stacksplice_set_allocator(&allocator) == S_OK ? 0 : -1;
}

void memory_arm(long nth)
{
    atomic_store(&memory_failed, 0);
    atomic_store(&memory_attempted, 0);
    atomic_store(&countdown, nth);
}

void memory_disarm(void)
{
    atomic_store(&countdown, 0);
}
