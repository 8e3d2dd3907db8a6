/* How many missed deadlines are reported: a report stops every thread for a moment, and stays. */
#ifndef SS_DEADLINE_BOUND_H
#define SS_DEADLINE_BOUND_H

#include "base/platform.h"

enum { SS_DEADLINE_REPORTS = 60, SS_DEADLINE_SECONDS_PER_REPORT = 60 };

/* Whether one may be reported at NOW: so many at once, and one more for each such time since. */
bool ss_deadline_may_report(int64_t now);

/* How many were not reported since the last one that was. */
uint64_t ss_deadlines_left_out(void);

/* The report has told it. */
void ss_deadlines_left_out_are_told(void);

#endif
