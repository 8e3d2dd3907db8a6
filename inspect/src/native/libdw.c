#include "native/libdw.h"

#include <dlfcn.h>
#include <string.h>

#define NAME(result, name, parameters) #name,
static const char *const names[] = {SSI_LIBDW_FUNCTIONS(NAME)};

const ssi_libdw *ssi_libdw_load(const char **why)
{
    static ssi_libdw functions;
    void *library = dlopen("libdw.so.1", RTLD_LAZY | RTLD_LOCAL);

    *why = "libdw.so.1 not found (Debian package: libdw1)";
    if (!library)
        return NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *function = dlsym(library, names[i]);

        *why = "libdw.so.1 is older than elfutils 0.188, which stacks need";
        if (!function)
            return NULL;
        memcpy((char *)&functions + i * sizeof function, &function, sizeof function);
    }
    functions.elf_version(EV_CURRENT);
    *why = NULL;
    return &functions;
}
