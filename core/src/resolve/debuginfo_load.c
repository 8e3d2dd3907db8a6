/* Loads libdw when the first native address is resolved. */
#include "resolve/libdw.h"

#include "base/alloc.h"
#include "resolve/debuginfo.h"
#include "resolve/room.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

#define NAME(result, name, parameters) #name,
static const char *const names[] = {LIBDW_FUNCTIONS(NAME)};

static _Atomic(ss_libdw *) loaded; /* (ATOMIC) lives as long as the process */
static atomic_bool missing;        /* (ATOMIC) it is not installed */

/* Fill FUNCTIONS from LIBRARY; false if one is missing. */
static bool find_functions_of(void *library, ss_libdw *functions)
{
    for (size_t i = 0; i < SS_COUNT_OF(names); i++) {
        void *function = dlsym(library, names[i]);

        if (!function)
            return false;
        memcpy((char *)functions + i * sizeof function, &function, sizeof function);
    }
    return true;
}

static void open_libdw(void *library)
{
    *(void **)library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);
}

bool ss_debug_load(void)
{
    ss_libdw *functions, *none = NULL;
    void *library;

    if (atomic_load_explicit(&loaded, memory_order_acquire))
        return true;
    if (atomic_load_explicit(&missing, memory_order_relaxed))
        return false;
    functions = ss_alloc(1, sizeof *functions);
    if (!functions)
        return false;
    if (!ss_room_call(open_libdw, &library)) {
        ss_free(functions);
        return false;
    }
    if (!library || !find_functions_of(library, functions)) {
        atomic_store_explicit(&missing, true, memory_order_relaxed);
        ss_free(functions);
        return false;
    }
    /* Two threads may get here; both tables are the same. */
    if (!atomic_compare_exchange_strong(&loaded, &none, functions))
        ss_free(functions);
    return true;
}

const char *ss_debug_missing(void)
{
    return atomic_load_explicit(&missing, memory_order_relaxed)
               ? "libdw.so.1 not found (Debian package: libdw1)"
               : NULL;
}

const ss_libdw *ss_libdw_functions(void)
{
    return atomic_load_explicit(&loaded, memory_order_acquire);
}
