#include "resolve/demangle.h"

#include "base/loader.h"
#include "resolve/room.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};

static _Atomic(ss_demangler) kept; /* (ATOMIC) its library stays loaded */

static ss_demangler demangler_of(void *library)
{
    void *address = dlsym(library, "__cxa_demangle");
    ss_demangler demangler;

    memcpy(&demangler, &address, sizeof demangler);
    return demangler;
}

/* Sets DATA, a library's file name, to the name of a loaded object with that file name. */
static int find_library(struct dl_phdr_info *info, size_t size, void *data)
{
    const char *slash = strrchr(info->dlpi_name ? info->dlpi_name : "", '/');
    const char **found = data;

    (void)size;
    for (size_t i = 0; i < SS_COUNT_OF(libraries) && slash && !*found; i++)
        if (!strcmp(slash + 1, libraries[i]))
            *found = libraries[i];
    return *found != NULL;
}

/*
 * Find one in a library that only its loader sees, as with extensions of interpreters.  dlopen
 * would search folders for a missing library, so look through the loaded ones first.
 */
static ss_demangler find_local(void)
{
    ss_demangler demangler = NULL;
    const char *name = NULL;
    void *library = NULL;

    (void)ss_loader_iterate(SS_LOADER_LONG, find_library, &name);
    if (name)
        library = dlopen(name, RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    if (library)
        demangler = demangler_of(library);
    if (demangler)
        atomic_store_explicit(&kept, demangler, memory_order_relaxed);
    return demangler; /* keep LIBRARY loaded: other threads may be running in it */
}

ss_demangler ss_demangler_find(void)
{
    ss_demangler demangler = atomic_load_explicit(&kept, memory_order_relaxed);

    if (!demangler)
        demangler = demangler_of(RTLD_DEFAULT);
    return demangler ? demangler : find_local();
}

static void open_library(void *library)
{
    *(void **)library = dlopen(libraries[0], RTLD_LAZY | RTLD_LOCAL);
    if (!*(void **)library)
        *(void **)library = dlopen(libraries[1], RTLD_LAZY | RTLD_LOCAL);
}

ss_demangler ss_demangler_load(void)
{
    ss_demangler demangler = ss_demangler_find();
    void *library = NULL;

    if (demangler || !ss_room_call(open_library, &library) || !library)
        return demangler;
    return ss_demangler_find();
}
