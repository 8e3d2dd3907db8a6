/* Whether modules are found in the loader's list alone, as with a C library before glibc 2.35. */
#ifndef STACKSPLICE_TEST_OLDER_C_LIBRARY_H
#define STACKSPLICE_TEST_OLDER_C_LIBRARY_H

#include <dlfcn.h>
#include <stdbool.h>

static bool older_c_library;

/* At the start: dlsym takes a lock of the loader, which a signal handler must not wait for. */
static __attribute__((constructor)) void ask_for_older_c_library(void)
{
    older_c_library = !dlsym(RTLD_DEFAULT, "_dl_find_object");
}

#endif
