#include "plan/plan.h"

bool ss_plan_is_possible;

void ss_plan_enter(void (*f)(void *data, uintptr_t entry), void *data)
{
    f(data, 0);
}
