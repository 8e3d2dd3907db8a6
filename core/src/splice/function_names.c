/* The names scripts use for machine code. */
#include "base/hash.h"
#include "base/keep.h"
#include "splice/token.h"
#include "splice/unloaded.h"

#include <stdatomic.h>
#include <string.h>

enum { BUCKETS = 1 << 14, MAX_NAMES = 1 << 20, LONGEST_NAME = 4095 };

/* Never changed or freed, so readers need no lock. */
typedef struct entry {
    struct entry *next;
    uintptr_t function;
    uint64_t epoch; /* of its code: see ss_settle */
    char name[];
} entry;

static _Atomic(entry *) buckets[BUCKETS]; /* (ATOMIC) grow only, at their heads */
static _Atomic uint32_t count;            /* (ATOMIC) */

static _Atomic(entry *) *bucket_of(uintptr_t function)
{
    return &buckets[ss_hash_words(&function, 1) % BUCKETS];
}

/* The entry of FUNCTION from E on whose code is still the one at its address. */
static const entry *find(const entry *e, uintptr_t function)
{
    for (; e; e = e->next) {
        uintptr_t inside = function + 1; /* as a return address */

        if (e->function != function)
            continue;
        (void)ss_settle(&inside, 1, e->epoch);
        if (inside == function + 1)
            break;
    }
    return e;
}

const char *ss_function_name(uintptr_t function)
{
    const entry *found = find(atomic_load(bucket_of(function)), function);

    return found && *found->name ? found->name : NULL;
}

stacksplice_hresult stacksplice_name_function(uintptr_t function, const char *language,
                                              const char *name)
{
    _Atomic(entry *) *bucket = bucket_of(function);
    uint64_t epoch;
    size_t size;
    entry *e;

    if (!function || !language || !name)
        return E_POINTER;
    epoch = ss_code_epoch();
    if (find(atomic_load(bucket), function))
        return S_FALSE;
    size = strnlen(name, LONGEST_NAME);
    e = atomic_load(&count) < MAX_NAMES ? ss_keep(sizeof *e + size + 1) : NULL;
    if (!e)
        return E_OUTOFMEMORY;
    e->function = function;
    e->epoch = epoch;
    memcpy(e->name, name, size);
    e->next = atomic_load(bucket);
    do {
        if (find(e->next, function))
            return S_FALSE;
    } while (!atomic_compare_exchange_weak(bucket, &e->next, e));
    atomic_fetch_add(&count, 1);
    return S_OK;
}
