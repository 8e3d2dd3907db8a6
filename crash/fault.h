/* A signal that ends the process, in words. */
#ifndef SS_FAULT_H
#define SS_FAULT_H

#include "base/platform.h"

#include <stacksplice/source.h>

#include <signal.h>
#include <stdatomic.h>

enum { SS_FAULT_KINDS = 6, SS_FAULT_MESSAGE_MAX = 128 };

typedef struct ss_fault_kind {
    const char *name;         /* "SIGSEGV" */
    const WCHAR *description; /* as the system's texts of HRESULTs, with "\r\n" */
    int number;
    HRESULT hresult; /* of the exception that Windows has for it */
} ss_fault_kind;

extern const ss_fault_kind ss_fault_kinds[SS_FAULT_KINDS];

/* One of the signals above where it struck. */
typedef struct ss_fault {
    const ss_fault_kind *kind;
    siginfo_t info;
    uintptr_t pc, sp;
    uintptr_t place; /* where the stack begins: PC, or its caller when there is no code at PC */
} ss_fault;

/* Whether the signal has an address. */
bool ss_fault_has_address(const ss_fault *fault);

/* Write what happened, such as "no memory at address 0x8".  Signal safe. */
void ss_fault_message(const ss_fault *fault, char message[SS_FAULT_MESSAGE_MAX]);

/* ---- The report ------------------------------------------------------------------------------*/

/* The report of a crash.  It is a list of steps; one that faults or takes too long is given
   up, and the handler goes on with the next one. */

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

/* Whether INFO is of the watchdog, which interrupts a step that takes too long. */
bool ss_watchdog_sent(const siginfo_t *info);

/* Then: go on behind the step that faulted, or (LATE) that the watchdog interrupted. */
void ss_fault_report_go_on(bool late);

/* In a forked child, where nobody reports. */
void ss_fault_report_forget(void);

/* ---- The handler -----------------------------------------------------------------------------*/

/* The handler of signals that end the process: who reports, and what comes after the report. */

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
