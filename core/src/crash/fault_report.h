/*
 * The report of a crash.  It is a list of steps; one that faults or takes too long is given up, and
 * the handler goes on with the next one.
 */
#ifndef SS_FAULT_REPORT_H
#define SS_FAULT_REPORT_H

#include "crash/fault.h"

enum { SS_CRASH_DIRECTORY_MAX = 3072, SS_CRASH_THREAD_TIMEOUT = 2000 };

/* What the host chose. */
typedef struct ss_crash_choice {
    bool has_directory; /* else that of fail-fast reports */
    char directory[SS_CRASH_DIRECTORY_MAX];
    uint32_t thread_timeout; /* milliseconds */
    bool others_first;
} ss_crash_choice;

/*
 * Report FAULT, which lives until the end, as the reporter.  HANDLER is the frame address of the
 * signal handler, RETURN_ADDRESS its return address.
 */
void ss_fault_report(const ss_fault *fault, const ss_crash_choice *choice, const void *handler,
                     const void *return_address);

/*
 * Whether this thread's report is not complete: a fault of its own or the watchdog interrupted it.
 */
bool ss_fault_report_is_cut(void);

/* Then: go on behind the step that faulted, or (LATE) that the watchdog interrupted. */
void ss_fault_report_go_on(bool late);

/* In a forked child, where nobody reports. */
void ss_fault_report_forget(void);

#endif
