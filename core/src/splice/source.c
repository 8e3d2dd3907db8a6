#include "splice/source.h"

#include "base/thread.h"

#include <stdatomic.h>
#include <string.h>

static stacksplice_source sources[SS_MAX_SOURCES]; /* (RO) below count */
static _Atomic uint32_t count;                     /* (ATOMIC) only grows */
static ss_lock sources_lock = SS_LOCK_INIT;

uint32_t ss_source_count(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

const stacksplice_source *ss_source_at(uint32_t index)
{
    return &sources[index];
}

static const stacksplice_source *find(const char *language, const void *identity)
{
    for (uint32_t i = 0; i < ss_source_count(); i++)
        if (sources[i].identity == identity && strcmp(sources[i].language, language) == 0)
            return &sources[i];
    return NULL;
}

void *stacksplice_source_data(const char *language, const void *identity)
{
    const stacksplice_source *source = language ? find(language, identity) : NULL;

    return source ? source->data : NULL;
}

stacksplice_hresult stacksplice_add_source(const stacksplice_source *source)
{
    stacksplice_hresult hr = S_OK;
    uint32_t last;

    if (!source)
        return E_POINTER;
    if (source->size != sizeof *source || source->version != STACKSPLICE_SOURCE_VERSION)
        return E_INVALIDARG;
    if (!source->language || !source->identity || !source->collect)
        return E_POINTER;
    if (!ss_lock_take(&sources_lock))
        return E_OUTOFMEMORY;
    last = ss_source_count();
    if (find(source->language, source->identity)) {
        hr = S_FALSE;
    } else if (last == SS_MAX_SOURCES) {
        hr = E_OUTOFMEMORY;
    } else {
        sources[last] = *source;
        atomic_store_explicit(&count, last + 1, memory_order_release);
    }
    ss_lock_drop(&sources_lock);
    return hr;
}
