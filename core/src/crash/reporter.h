/* Which thread reports the end of the process.  Signal safe. */
#ifndef SS_REPORTER_H
#define SS_REPORTER_H

#include "base/platform.h"

typedef enum ss_reporter {
    SS_REPORTER_NOW,   /* this thread, from this call on */
    SS_REPORTER_AGAIN, /* this thread was it before: something interrupted its report */
    SS_REPORTER_OTHER  /* another thread */
} ss_reporter;

/*
 * The same, but wait while there is another.  One whose report ends nothing may wait for this very
 * thread, which crashed with a lock of the loader: it is waited for 15 seconds.
 */
ss_reporter ss_reporter_become_waiting(void);

/* The same for a report that ends nothing: a fault in it makes this thread reporter once more. */
void ss_reporter_become_for_now(void);

/* The report is complete, and the process may go on. */
void ss_reporter_is_done(void);

/*
 * A closed stderr or a limit on files must not end the process before the rest is written.  A fault
 * in the report must reach the handler that goes on with it: the kernel kills a process that faults
 * while it blocks the signal.  Nor may a cancellation that waits end this thread in the report.
 */
void ss_reporter_set_signals(void);

/*
 * Undo that for the crash that follows: what the report has raised must not strike in its place.  A
 * cancellation waits for a cancellation point.
 */
void ss_reporter_reset_signals(void);

/* Drop signal NUMBER, which this thread blocks, if it waits. */
void ss_reporter_drop_signal(int number);

#endif
