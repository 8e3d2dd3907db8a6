/* The deadlines that were begun and not yet ended. */
#ifndef SS_DEADLINES_H
#define SS_DEADLINES_H

#include "base/platform.h"

#include <stacksplice/deadline.h>

enum { SS_DEADLINE_NAME = STACKSPLICE_DEADLINE_NAME_MAX + 1 };

typedef struct ss_deadline {
    uint64_t thread_id;
    int64_t at; /* nanoseconds of CLOCK_MONOTONIC */
    uint32_t milliseconds, flags;
    void (*missed)(const char *report_file, void *data);
    void (*interrupt)(void *data);
    void *data;
    char name[SS_DEADLINE_NAME]; /* ends with a NUL; "": none */
} ss_deadline;

/* For the watcher: nothing armed, never. */
#define SS_DEADLINE_NEVER INT64_MAX

/* Add a copy of DEADLINE.  Tells by WAKE whether the watcher must look again. */
stacksplice_hresult ss_deadlines_add(const ss_deadline *deadline, stacksplice_deadline *number,
                                     bool *wake);

/* Remove it; E_PENDING if its call is running, and then nothing is removed. */
stacksplice_hresult ss_deadlines_remove(stacksplice_deadline number);

typedef enum ss_due { SS_DUE_NOTHING, SS_DUE_MISSED, SS_DUE_INTERRUPT } ss_due;

/*
 * Copy the earliest deadline that has passed at NOW to DEADLINE, once, and then again whenever its
 * thread is to be interrupted.  SS_DUE_NOTHING: the watcher sleeps until *UNTIL, or until
 * *ss_deadlines_changes() is not *SEEN.
 */
ss_due ss_deadlines_take(int64_t now, ss_deadline *deadline, stacksplice_deadline *number,
                         int64_t *until, uint32_t *seen);

/* Grows whenever ss_deadlines_add tells to wake the watcher. */
_Atomic uint32_t *ss_deadlines_changes(void);

/* A missed deadline's call begins, unless it has been removed; then ends. */
bool ss_deadlines_begin_call(stacksplice_deadline number);
void ss_deadlines_end_call(stacksplice_deadline number);

/* From NOW on it is due to interrupt its thread, unless it has been removed. */
void ss_deadlines_begin_interrupts(stacksplice_deadline number, int64_t now);

/* In its thread, in a signal handler: call its function, unless it has been removed. */
void ss_deadlines_interrupt(stacksplice_deadline number);

/* ---- The watcher -----------------------------------------------------------------------------*/

/* The thread that waits for deadlines to pass. */

/* Nanoseconds of the clock of all deadlines. */
int64_t ss_deadline_now(void);

/* Start it in this process, unless it runs.  False: no thread can be started. */
bool ss_deadline_watch(void);

/* Have it look again at the table. */
void ss_deadline_wake(void);

/* Whether this thread is it. */
bool ss_deadline_is_watcher(void);

/* ---- The report ------------------------------------------------------------------------------*/

/* The report of a missed deadline, written by the watcher's thread.  The process goes on. */

/* Before the first report, outside of signal handlers. */
void ss_deadline_report_prepare(void);

/* Returns the path of its file until the next report, or NULL: also if there have been too many. */
const char *ss_deadline_report(const ss_deadline *deadline, int64_t now);

/* ---- Their number ----------------------------------------------------------------------------*/

/* How many missed deadlines are reported: a report stops every thread for a moment, and stays. */

enum { SS_DEADLINE_REPORTS = 60, SS_DEADLINE_SECONDS_PER_REPORT = 60 };

/* Whether one may be reported at NOW: so many at once, and one more for each such time since. */
bool ss_deadline_may_report(int64_t now);

/* How many were not reported since the last one that was. */
uint64_t ss_deadlines_left_out(void);

/* The report has told it. */
void ss_deadlines_left_out_are_told(void);

#endif
