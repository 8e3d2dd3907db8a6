#include "base/stack_call.h"

bool ss_stack_call(void *top, void (*f)(void *), void *data)
{
    (void)top;
    (void)f;
    (void)data;
    return false;
}
