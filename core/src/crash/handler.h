/* The handler of signals that end the process: who reports, and what comes after the report. */
#ifndef SS_HANDLER_H
#define SS_HANDLER_H

#include "crash/fault_report.h"

#include <signal.h>
#include <stdatomic.h>

extern ss_crash_choice ss_handler_choice;
extern atomic_bool ss_handler_is_on; /* (ATOMIC) reports are wanted */

/* What was there before us, in the order of ss_fault_kinds. */
extern struct sigaction ss_handler_former[SS_FAULT_KINDS];

/* The host's folder of report files; NULL: that of fail-fast reports. */
const char *ss_handler_directory(void);

/* For sigaction, with SA_SIGINFO. */
void ss_handle_fault(int number, siginfo_t *info, void *context);

bool ss_handler_is_ours(const struct sigaction *action);

#endif
