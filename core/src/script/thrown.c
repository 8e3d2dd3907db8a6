/* The exception objects of C++ that have errors, and the C++ libraries that own them. */
#include "stacksplice/thrown.h"

#include "base/alloc.h"
#include "base/thread.h"
#include "script/exception.h"

#include <string.h>

/* In front of an exception object, in 64-bit code: __cxa_exception of the Itanium C++ ABI. */
enum { TYPE_BEFORE = 112, DESTRUCTOR_BEFORE = 104, BUCKETS = 1024 };

typedef void destructor(void *object);

/* Code that may be unloaded. */
typedef struct code {
    uintptr_t address; /* 0: none */
    uint64_t epoch;    /* in which it was there */
} code;

static code code_at(uintptr_t address)
{
    return (code){address, stacksplice_code_epoch()};
}

static bool is_loaded(const code *c)
{
    uintptr_t inside = c->address + 1;

    (void)stacksplice_settle(&inside, 1, c->epoch); /* looks, if anything was unloaded */
    return inside == c->address + 1;
}

/* ---- Libraries -------------------------------------------------------------------------------*/

typedef struct library {
    stacksplice_cpp_library functions; /* (RO) */
    code release;                      /* (RO) */
    stacksplice_owner *owner;          /* (RO) */
    struct library *next;              /* (RO) */
} library;

static _Atomic(library *) libraries; /* (ATOMIC) grows only */

static void count(void (*function)(void *reference), const stacksplice_cpp_library *functions,
                  void *object)
{
    function(functions->indirect ? (void *)&object : object);
}

static void release_thrown(void *context, void *data, void *value)
{
    const library *l = data;

    (void)context;
    if (is_loaded(&l->release))
        count(l->functions.release, &l->functions, value);
}

static const stacksplice_language cpp = {sizeof cpp, "c++", STACKSPLICE_LANGUAGE_ANY_THREAD,
                                         release_thrown, NULL};

static const library *find_library(const stacksplice_cpp_library *functions)
{
    const library *l = atomic_load(&libraries);

    while (l && (l->functions.release != functions->release || !is_loaded(&l->release)))
        l = l->next;
    return l;
}

stacksplice_owner *stacksplice_cpp_owner(const stacksplice_cpp_library *functions)
{
    const library *known = find_library(functions);
    library *l = known ? NULL : ss_alloc(1, sizeof *l);

    if (known)
        return known->owner;
    if (l)
        l->owner = stacksplice_owner_new(&cpp, l);
    if (!l || !l->owner) {
        ss_free(l);
        return NULL;
    }
    l->functions = *functions;
    l->release = code_at((uintptr_t)functions->release);
    /* Of two threads that come at once the second one's is never found, which is no harm. */
    l->next = atomic_load(&libraries);
    while (!atomic_compare_exchange_weak(&libraries, &l->next, l))
        ;
    return l->owner;
}

/* ---- Objects ---------------------------------------------------------------------------------*/

typedef struct thrown {
    void *object;
    destructor *destroy; /* its own; NULL: it needs none */
    code code;           /* of that */
    code type;           /* its std::type_info, which each handler reads */
    stacksplice_ties ties;
    struct thrown *next;
} thrown;

SS_LOCK(lock);
static thrown *buckets[BUCKETS]; /* (lock) */

static thrown **place_of(const void *object)
{
    thrown **at = &buckets[((uintptr_t)object * UINT64_C(0x9E3779B97F4A7C15)) >> 54];

    while (*at && (*at)->object != object)
        at = &(*at)->next;
    return at;
}

/* It stays as long as its object, on which the caller has a reference. */
static thrown *find(const void *object)
{
    thrown *found;

    if (!object || !ss_lock_take(&lock))
        return NULL;
    found = *place_of(object);
    ss_lock_drop(&lock);
    return found;
}

/* Takes the place of an object's destructor. */
static void end(void *object)
{
    thrown **at, *t;

    if (!ss_lock_take(&lock))
        return; /* a leak; the C++ library runs no destructors in a signal handler */
    at = place_of(object);
    t = *at;
    if (t)
        *at = t->next;
    ss_lock_drop(&lock);
    if (!t)
        return;
    if (t->destroy && is_loaded(&t->code))
        t->destroy(object);
    stacksplice_ties_drop(&t->ties);
    ss_free(t);
}

static destructor **destructor_of(void *object)
{
    return (destructor **)(void *)((char *)object - DESTRUCTOR_BEFORE);
}

stacksplice_hresult stacksplice_thrown_tie(void *object, const void *type, stacksplice_ties *ties)
{
    thrown *t, **at;
    bool fresh = false;

    if (sizeof(void *) != 8 || !object ||
        memcmp((const char *)object - TYPE_BEFORE, &type, sizeof type) != 0)
        return S_FALSE;
    t = ss_alloc(1, sizeof *t);
    if (!t)
        return S_FALSE;
    t->object = object;
    t->destroy = __atomic_load_n(destructor_of(object), __ATOMIC_RELAXED);
    t->code = code_at((uintptr_t)t->destroy);
    t->type = code_at((uintptr_t)type);
    t->ties = *ties;
    if (ss_lock_take(&lock)) {
        at = place_of(object);
        fresh = !*at;
        if (fresh) {
            *at = t;
            __atomic_store_n(destructor_of(object), end, __ATOMIC_RELAXED);
        }
        ss_lock_drop(&lock);
    }
    if (!fresh) {
        ss_free(t);
        return S_FALSE;
    }
    *ties = (stacksplice_ties){NULL, NULL, 0};
    return S_OK;
}

int stacksplice_thrown_has_error(const void *object)
{
    return find(object) != NULL;
}

stacksplice_hresult stacksplice_thrown_leave(void *object, const stacksplice_cpp_library *functions,
                                             stacksplice_hresult *hr)
{
    thrown *t = find(object);
    IRestrictedErrorInfo *info = t ? ss_query(t->ties.error, &IID_IRestrictedErrorInfo) : NULL;
    HRESULT result;

    if (!info)
        return S_FALSE;
    /* Now that INFO holds the language exception, no other thread can drop the value. */
    count(functions->hold, functions, object);
    if (!stacksplice_exception_keep(t->ties.exception, object))
        count(functions->release, functions, object);
    (void)stacksplice_error_hresult((IUnknown *)(void *)info, hr);
    result = SetRestrictedErrorInfo(info);
    info->lpVtbl->Release(info);
    return FAILED(result) ? S_FALSE : S_OK;
}

void *stacksplice_thrown_object(IRestrictedErrorInfo *error,
                                const stacksplice_cpp_library *functions)
{
    const ss_record *record = ss_record_from((IUnknown *)(void *)error);
    const library *l = find_library(functions);
    const stacksplice_exception *x =
        record && l ? stacksplice_exception_from(record->language.object, l->owner) : NULL;
    void *object = x ? stacksplice_exception_value(x) : NULL;
    const thrown *t = find(object);

    if (t && !is_loaded(&t->type))
        object = NULL;
    if (object)
        count(functions->hold, functions, object);
    return object;
}
