/* The stacks that ss_threads_ask got, in reports: all but that of one thread.  Signal safe. */
#ifndef SS_THREAD_STACKS_H
#define SS_THREAD_STACKS_H

#include "crash/threads.h"
#include "report/json.h"
#include "report/report.h"

/* As text; EXCEPT is a thread's id, or 0. */
void ss_threads_tell(const ss_report *r, uint64_t except);

/* As the members `threads` and `threads_left_out` (null: they are unknown) of a report file. */
void ss_threads_put(const ss_report *r, ss_emit *e, uint64_t except);

#endif
