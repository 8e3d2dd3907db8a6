/* For musl, whose dlclose unmaps nothing. */
#include "unwind/unloads.h"

uint64_t ss_modules_generation(bool check)
{
    (void)check;
    return 0;
}

bool ss_modules_watched(bool off)
{
    (void)off;
    return false;
}
