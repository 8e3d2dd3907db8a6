#include "splice/source.h"

#include "base/thread.h"
#include "unwind/unwind.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>

#define MOST_SOURCES 32

static stacksplice_source sources[MOST_SOURCES]; /* (RO) below count */
static _Atomic uint32_t count;                   /* (ATOMIC) only grows */
SS_LOCK(sources_lock);
static struct stat first_folder; /* (RO) once there is a source */

uint32_t ss_source_count(void)
{
    return atomic_load_explicit(&count, memory_order_acquire);
}

const stacksplice_source *ss_source_at(uint32_t index)
{
    return &sources[index];
}

bool ss_sources_report(void)
{
    uint32_t end = ss_source_count();

    for (uint32_t i = 0; i < end; i++)
        if (!sources[i].reports)
            return false;
    return true;
}

bool ss_folder_has_changed(void)
{
    struct stat folder;

    return ss_source_count() && (stat(".", &folder) || folder.st_dev != first_folder.st_dev ||
                                 folder.st_ino != first_folder.st_ino);
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

int stacksplice_has_other_sources(const char *language)
{
    for (uint32_t i = 0; i < ss_source_count(); i++)
        if (!language || strcmp(sources[i].language, language) != 0)
            return 1;
    return 0;
}

/* The flags that the sources give a native frame at IP. */
static uint32_t classify(uintptr_t ip, uintptr_t function)
{
    uint32_t end = ss_source_count();

    for (uint32_t i = 0; i < end; i++) {
        const stacksplice_source *source = &sources[i];
        uint32_t mark = source->classify ? source->classify(ip, function, source->data) : 0;

        if (mark)
            return SS_UNWIND_MARKED | (i + 1) << 16 | mark << 8;
    }
    return 0;
}

void stacksplice_reclassify(void)
{
    ss_unwind_classify(classify);
}

/* An older binding lacks the last members. */
static bool is_known_size(size_t size)
{
    return size == sizeof(stacksplice_source) || size == offsetof(stacksplice_source, classify) ||
           size == offsetof(stacksplice_source, ends_walks) ||
           size == offsetof(stacksplice_source, reports);
}

stacksplice_hresult stacksplice_add_source(const stacksplice_source *source)
{
    stacksplice_hresult hr = S_OK;
    uint32_t last;

    if (!source)
        return E_POINTER;
    if (!is_known_size(source->size) || source->version != STACKSPLICE_SOURCE_VERSION)
        return E_INVALIDARG;
    if (!source->language || !source->identity || !source->collect)
        return E_POINTER;
    if (!ss_lock_take(&sources_lock))
        return E_OUTOFMEMORY;
    last = ss_source_count();
    if (find(source->language, source->identity)) {
        hr = S_FALSE;
    } else if (last == MOST_SOURCES) {
        hr = E_OUTOFMEMORY;
    } else {
        memcpy(&sources[last], source, source->size);
        if (!last)
            (void)stat(".", &first_folder);
        atomic_store_explicit(&count, last + 1, memory_order_release);
    }
    ss_lock_drop(&sources_lock);
    if (hr == S_OK)
        stacksplice_reclassify();
    return hr;
}
