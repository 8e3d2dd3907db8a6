#include "resolve/demangle.h"

#include "base/loader.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <string.h>

static const char *const libraries[] = {"libstdc++.so.6", "libc++abi.so.1"};

static _Atomic(ss_demangler) kept; /* (ATOMIC) of a library that we hold */

static ss_demangler demangler_of(void *library)
{
    void *address = dlsym(library, "__cxa_demangle");
    ss_demangler demangler;

    memcpy(&demangler, &address, sizeof demangler);
    return demangler;
}

/* Sets DATA, a name of libraries, when an object with that file name is loaded. */
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
 * Of a library that only those see who loaded it, as the extensions of interpreters do.  The loader
 * would search its folders for one that is not there, so the loaded ones are looked through first.
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
    return demangler; /* LIBRARY is never given back: others may be in it */
}

ss_demangler ss_demangler_find(void)
{
    ss_demangler demangler = atomic_load_explicit(&kept, memory_order_relaxed);

    if (!demangler)
        demangler = demangler_of(RTLD_DEFAULT);
    return demangler ? demangler : find_local();
}
