/* Names that scripts use for machine code. */
#include "splice/token.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "splice/set.h"

#include <string.h>

#define MAX_NAMES (1u << 20)

typedef struct entry {
    uint32_t hash; /* first: see set.h */
    uintptr_t function;
    char name[];
} entry;

static ss_set names;
static ss_lock names_lock = SS_LOCK_INIT;

static uint32_t hash_of(uintptr_t function)
{
    return ss_hash_words(&function, 1);
}

static bool is_of(const void *e, const void *function)
{
    return ((const entry *)e)->function == *(const uintptr_t *)function;
}

const char *ss_function_name(uintptr_t function)
{
    const entry *e = ss_set_find(&names, hash_of(function), is_of, &function);

    return e ? e->name : NULL;
}

static entry *new_entry(uintptr_t function, const char *name)
{
    size_t size = strlen(name) + 1;
    entry *e = ss_alloc(1, sizeof *e + size);

    if (!e)
        return NULL;
    e->hash = hash_of(function);
    e->function = function;
    memcpy(e->name, name, size);
    return e;
}

stacksplice_hresult stacksplice_name_function(uintptr_t function, const char *language,
                                              const char *name)
{
    ss_set_table *table = NULL;
    entry *e;
    stacksplice_hresult hr = E_OUTOFMEMORY;
    size_t wants = 0;

    if (!function || !language || !name)
        return E_POINTER;
    if (ss_function_name(function))
        return S_FALSE;
    e = new_entry(function, name);
    /* Memory is taken before the lock: the host's allocator never runs under it. */
    while (e && (!wants || (table = ss_set_new_table(wants))) && ss_lock_take(&names_lock)) {
        wants = ss_set_wants(&names);
        if (wants && table && table->capacity == wants) {
            ss_set_use(&names, table);
            table = NULL;
            wants = 0;
        }
        if (ss_function_name(function)) {
            hr = S_FALSE;
        } else if (!wants && names.count < MAX_NAMES) {
            ss_set_add(&names, &e->hash);
            e = NULL;
            hr = S_OK;
        }
        ss_lock_drop(&names_lock);
        if (hr != E_OUTOFMEMORY || !wants)
            break;
        ss_free(table);
        table = NULL;
    }
    ss_free(table);
    ss_free(e);
    return hr;
}
