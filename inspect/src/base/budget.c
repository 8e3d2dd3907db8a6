#include "base/budget.h"

/* Some seconds: a read takes some nanoseconds, and longer ones cost more. */
enum { ALL = 1 << 27, BYTES = 256 };

static size_t left = ALL;
static bool spent;

void ssi_budget_renew(void)
{
    left = ALL;
    spent = false;
}

bool ssi_budget_takes(size_t size)
{
    size_t cost = 1 + size / BYTES;

    if (cost > left) {
        spent = true;
        return false;
    }
    left -= cost;
    return true;
}

bool ssi_budget_is_spent(void)
{
    return spent;
}
