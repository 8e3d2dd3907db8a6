#include "base/platform.h"

#include <stacksplice/stacksplice.h>

#define TEXT_OF(x) #x
#define VERSION_TEXT(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *stacksplice_version(void)
{
    return VERSION_TEXT(STACKSPLICE_VERSION_MAJOR, STACKSPLICE_VERSION_MINOR,
                        STACKSPLICE_VERSION_PATCH);
}

/* CMake, which chose the parts, gives the text; programs that contain the core do without. */
#ifndef STACKSPLICE_BUILD
#define STACKSPLICE_BUILD "unknown"
#endif

const char *stacksplice_build(void)
{
    return STACKSPLICE_BUILD;
}
