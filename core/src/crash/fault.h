/* A signal that ends the process, in words. */
#ifndef SS_FAULT_H
#define SS_FAULT_H

#include "base/platform.h"
#include <stacksplice/source.h>

#include <signal.h>

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

#endif
