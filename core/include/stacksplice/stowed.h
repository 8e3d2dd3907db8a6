/*
 * For debuggers, and for crash reporters that run in the dying process (a handler of SIGABRT): the
 * errors of a process that failed fast, as stowed-exception records.
 *
 * All are zero until RoFailFastWithErrorContext, RoReportUnhandledError or RoReportFailedDelegate
 * ends the process.  The function completes them before it writes anything and before SIGABRT.
 * They never change again.
 */
#ifndef STACKSPLICE_STOWED_H
#define STACKSPLICE_STOWED_H

#include "stacksplice.h"
#include "winrt/stowedexception.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The origin, up to 150 propagation nodes, and up to 16 errors that the origin was made from. */
#define STACKSPLICE_STOWED_MAX 168

typedef STOWED_EXCEPTION_INFORMATION_V2 *PSTOWED_EXCEPTION_INFORMATION_V2;

/*
 * The origin first, then its propagation nodes from the oldest to the newest, then the errors it
 * was transformed from.  The elements of a stack trace are those of stacksplice_capture.  A nested
 * exception of type LEO1 is the language exception, an IUnknown.
 */
extern STACKSPLICE_API PSTOWED_EXCEPTION_INFORMATION_V2
    stacksplice_stowed_exceptions[STACKSPLICE_STOWED_MAX];
extern STACKSPLICE_API uint32_t stacksplice_stowed_exception_count;

/*
 * The thread of each record.  ThreadId in the record has no room for an id that is not a multiple
 * of four.
 */
extern STACKSPLICE_API uint64_t stacksplice_stowed_thread_ids[STACKSPLICE_STOWED_MAX];

#ifdef __cplusplus
}
#endif
#endif
