/* A recursion whose calls all look alike. */
#ifndef STACKSPLICE_TEST_UNWIND_DEEP_H
#define STACKSPLICE_TEST_UNWIND_DEEP_H

#include "calls.h"

static NOINLINE unsigned deep(unsigned depth, void (*function)(void))
{
    volatile unsigned result;

    if (depth)
        result = deep(depth - 1, function);
    else
        function();
    result = depth;
    return result + 1;
}

#endif
