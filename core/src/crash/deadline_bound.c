#include "crash/deadlines.h"

#define PER_REPORT ((int64_t)SS_DEADLINE_SECONDS_PER_REPORT * 1000 * 1000 * 1000)

/* (THREAD watcher) */
static int64_t used_until; /* each report uses one such time, the first of them ahead of it */
static uint64_t left_out;

bool ss_deadline_may_report(int64_t now)
{
    if (used_until < now)
        used_until = now;
    if (used_until + PER_REPORT > now + SS_DEADLINE_REPORTS * PER_REPORT) {
        left_out++;
        return false;
    }
    used_until += PER_REPORT;
    return true;
}

uint64_t ss_deadlines_left_out(void)
{
    return left_out;
}

void ss_deadlines_left_out_are_told(void)
{
    left_out = 0;
}
