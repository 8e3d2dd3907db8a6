/* Libraries that a cmocka test opens itself, and their functions. */
#ifndef STACKSPLICE_TEST_LIBRARIES_H
#define STACKSPLICE_TEST_LIBRARIES_H

#include "support.h"

#include <dlfcn.h>
#include <string.h>

static inline void *open_library(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

    if (!library)
        fail_msg("%s", dlerror());
    return library;
}

/* The address of NAME, which the pointer to a function at FUNCTION becomes. */
static inline void *find_in(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);

    assert_non_null(found);
    memcpy(function, &found, sizeof found);
    return found;
}

#endif
