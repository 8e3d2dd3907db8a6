/* The report of a missed deadline, written by the watcher's thread.  The process goes on. */
#ifndef SS_DEADLINE_REPORT_H
#define SS_DEADLINE_REPORT_H

#include "crash/deadline_table.h"

/* Before the first report, outside of signal handlers. */
void ss_deadline_report_prepare(void);

/* Returns the path of its file until the next report, or NULL: also if there have been too many. */
const char *ss_deadline_report(const ss_deadline *deadline, int64_t now);

#endif
