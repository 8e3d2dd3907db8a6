/* A deadline, and its report. */
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

/* The report of a missed deadline, written by the watcher's thread.  The process goes on. */

/* Before the first report, outside of signal handlers. */
void ss_deadline_report_prepare(void);

/* Returns the path of its file until the next report, or NULL: also if there have been too many. */
const char *ss_deadline_report(const ss_deadline *deadline, int64_t now);

#endif
