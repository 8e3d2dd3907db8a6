/* The thread that waits for deadlines to pass. */
#ifndef SS_DEADLINE_WATCHER_H
#define SS_DEADLINE_WATCHER_H

#include "base/platform.h"

/* Nanoseconds of the clock of all deadlines. */
int64_t ss_deadline_now(void);

/* Start it in this process, unless it runs.  False: no thread can be started. */
bool ss_deadline_watch(void);

/* Have it look again at the table. */
void ss_deadline_wake(void);

/* Whether this thread is it. */
bool ss_deadline_is_watcher(void);

#endif
