#include "base/alloc.h"

#include <stacksplice/stacksplice.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static stacksplice_allocator host; /* (RO) after the first allocation; unset: malloc */
static atomic_bool in_use;         /* (ATOMIC) set at the first allocation: host is fixed */

static void mark_in_use(void)
{
    /* Read before writing: all threads share this cache line, which must stay clean. */
    if (SS_UNLIKELY(!atomic_load_explicit(&in_use, memory_order_relaxed)))
        atomic_store_explicit(&in_use, true, memory_order_relaxed);
}

void *ss_alloc_dirty(size_t bytes)
{
    mark_in_use();
    return host.alloc ? host.alloc(bytes, host.data) : malloc(bytes);
}

void *ss_alloc(size_t count, size_t size)
{
    size_t bytes;
    void *block;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    mark_in_use();
    if (!host.alloc)
        return calloc(1, bytes);
    block = host.alloc(bytes, host.data);
    if (block)
        memset(block, 0, bytes);
    return block;
}

void *ss_realloc(void *block, size_t count, size_t size)
{
    size_t bytes;

    if (__builtin_mul_overflow(count, size, &bytes))
        return NULL;
    mark_in_use();
    return host.realloc ? host.realloc(block, bytes, host.data) : realloc(block, bytes);
}

void ss_free(void *block)
{
    if (!block)
        return;
    if (host.free)
        host.free(block, host.data);
    else
        free(block);
}

stacksplice_hresult stacksplice_set_allocator(const stacksplice_allocator *a)
{
    if (!a)
        return E_POINTER;
    if (a->size != sizeof *a)
        return E_INVALIDARG;
    if (!a->alloc || !a->realloc || !a->free)
        return E_POINTER;
    if (atomic_load(&in_use))
        return E_ILLEGAL_METHOD_CALL;
    host = *a;
    return S_OK;
}
