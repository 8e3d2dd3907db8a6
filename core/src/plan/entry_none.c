#include "plan/plan.h"

const bool ss_plan_is_possible = false;

void ss_plan_enter(void (*f)(void *data, uintptr_t entry), void *data)
{
    f(data, 0);
}
